{
 "format": "pabi.signatures",
 "version": 1,
 "statements": [
  {
   "statement": "pabi.statement 1\nfile sha256 44af92ae4fe434be12f288926cbaf9532a88e1fff0d30001848c540e4df8326d\nname Ada Lovelace\nrole publisher\ndate 2026-11-28\n",
   "key": "f702336bdedc6a27814be21110136429eb36104cdc65cecd1e805fccfbcaacd9",
   "signature": "2349af0c428774b123a257ba41a67adf59b0dd86c8574dc73ee0bccec94f036c16e70d9aa0e6f919497bac504156cd277faa224e19874589802e9ad60416b608"
  }
 ]
}
