"""What has been proven: a guarantee with its readings, its proof, and the certificate for strangers."""
