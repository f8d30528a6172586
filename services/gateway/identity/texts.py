"""When two texts that people type are the same name, or the same password (pure).

One keyboard composes "é", another sends "e" and an accent; some forms look alike in every font. A name is compared in
the compatibility composition without case, a password as RFC 8265's OpaqueString: composed, its case and width kept.
"""

import unicodedata


def composed(text: str) -> str:
    """The text as it is stored and shown: one form for what looks and means the same."""
    return unicodedata.normalize("NFC", text)


def username_key(username: str) -> str:
    """What tells one username from another, in the database and among failed sign-ins alike."""
    folded = unicodedata.normalize("NFKC", username.strip()).casefold()
    return unicodedata.normalize("NFKC", folded)


def password_bytes(password: str) -> bytes:
    """What is hashed. A terminal's undecodable bytes arrive as surrogates; a password may hold them."""
    spaced = "".join(" " if unicodedata.category(character) == "Zs" else character for character in password)
    return composed(spaced).encode(errors="surrogatepass")
