"""A private certificate authority, and certificates for 127.0.0.1."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_DAY = datetime.timedelta(days=1)


class Authority:
    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Test authority {name}")])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        own = self._builder(self._name, self._key).add_extension(x509.BasicConstraints(True, None), True)
        self.file = folder / f"{name}.pem"
        self._write(self.file, own.add_extension(usage, True).sign(self._key, hashes.SHA256()))

    def issue(self, cert: Path, key: Path, *names: str) -> int:
        """Write a new certificate and its key to these files. It is for 127.0.0.1 and for these DNS names. Return its
        serial number.
        """
        private = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
        loopback = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        address = x509.SubjectAlternativeName([loopback, *map(x509.DNSName, names)])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = self._builder(name, private).add_extension(address, False).add_extension(issuer, False)
        signed = made.sign(self._key, hashes.SHA256())
        key.write_bytes(
            private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self._write(cert, signed)
        return signed.serial_number

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - _DAY)
        return builder.not_valid_after(now + _DAY).add_extension(identifier, False)

    def _write(self, path: Path, certificate: x509.Certificate) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
