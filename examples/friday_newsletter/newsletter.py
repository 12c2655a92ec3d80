"""Writes one mail per recipient into a folder. Replace `deliver` with `smtplib.SMTP(...).send_message`."""

import json
import os
from email.message import EmailMessage
from pathlib import Path

parameters = json.loads(os.environ["TIMEBALL_PARAMETERS"])
outbox = Path("outbox")
outbox.mkdir(exist_ok=True)


def deliver(mail: EmailMessage) -> None:
    (outbox / f"{mail['To']}.eml").write_bytes(bytes(mail))


recipients = parameters["recipients"]
for number, recipient in enumerate(recipients, start=1):
    mail = EmailMessage()
    mail["To"], mail["From"], mail["Subject"] = recipient, "news@example.org", parameters["subject"]
    mail.set_content("What happened this week.")
    deliver(mail)
    print(f"::progress {100 * number // len(recipients)} {recipient}")

print("::result", json.dumps({"sent": len(recipients)}))
