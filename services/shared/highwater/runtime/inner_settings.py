"""The settings of what the services of a cluster show one another, and ask for: secret, certificates."""

from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

from highwater.runtime.settings import SettingsGroup


class InnerSettings(SettingsGroup):
    """The same for all services of a cluster. Nothing is checked by default."""

    secret_file: Path | None = Field(
        default=None,
        description="file with the cluster's secret: calls between services must show it. Each line "
        "is accepted and the first one shown, so that it can be changed while services run. `highwater up` makes one",
    )
    cert_file: Path | None = Field(
        default=None,
        description="PEM file of the certificate that other services are shown, as server and as "
        "client; with key_file and ca_file it turns mutual TLS on",
    )
    key_file: Path | None = Field(default=None, description="PEM file of its private key")
    ca_file: Path | None = Field(
        default=None, description="PEM file of whom other services' certificates have to be from"
    )
    names: tuple[str, ...] = Field(
        default=(),
        description="callers need a certificate for one of these names (CN, or DNS name, address "
        "or URI among the alternative names); empty: any of ca_file",
    )

    @field_validator("secret_file", "cert_file", "key_file", "ca_file", mode="before")
    @classmethod
    def _read_file(cls, value: Any) -> Any:
        return value or None  # "" takes back the default of `highwater up`.

    @model_validator(mode="after")
    def _check_files(self) -> "InnerSettings":
        files = (self.cert_file, self.key_file, self.ca_file)
        if any(files) and not all(files):
            raise ValueError("cert_file, key_file and ca_file belong together")
        if self.names and not self.ca_file:
            raise ValueError("names need cert_file, key_file and ca_file")
        return self
