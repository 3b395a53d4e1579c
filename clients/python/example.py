import os
import secrets

from card_gateway_client import ApiError, Client

cards = Client(os.environ["CARD_URL"], os.environ["CARD_KEY_ID"], os.environ["CARD_SECRET"])

try:
    customer = cards.post("/api/v1/Customers", {
        "type": "individual", "firstName": "Zoë", "lastName": "García", "email": f"zoe-{secrets.token_hex(4)}@example.com",
        "phoneCode": "+34", "phoneNumber": "600000000", "country": "ES", "dateOfBirth": "1990-04-12", "gender": "female",
    }).json()["data"]
    print("customer", customer["id"], customer["firstName"])

    issued = cards.post("/api/v1/cards", {
        "customerId": customer["id"], "productId": "00000000-0000-4000-8000-000000000001", "currency": "EUR",
    }).json()
    card = cards.get(f"/api/v1/cards/{issued['cardId']}").json()
    print("card", card["card_number_masked"], card["status"])

    page = cards.get(f"/api/v1/customers/{customer['id']}/transactions", {"from": "2026-01-01T00:00:00+01:00", "limit": 5}).json()
    print(page["pagination"]["total"], "transactions")

    stored = cards.upload("/api/v1/documents", {"type": "passport", "customerId": customer["id"]}, {"file": ("passport.pdf", b"%PDF-1.7")})
    print("document", stored.json()["data"][0]["documentId"])
except ApiError as refusal:
    raise SystemExit(f"{refusal}: {refusal.details}")
