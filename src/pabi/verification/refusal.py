"""Why a certificate is refused."""


class Refused(Exception):
    """A check failed; the message says which, and at which step."""
