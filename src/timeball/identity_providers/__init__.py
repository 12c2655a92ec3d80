"""Identity providers: bearer tokens (JWT), and sign-in with OpenID Connect. Imported only if one is configured."""
