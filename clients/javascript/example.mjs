async function main() {
  const { ApiError, Client } = await import("card-gateway-client");
  const { CARD_URL: baseUrl, CARD_KEY_ID: keyId, CARD_SECRET: secret } = process.env;
  const cards = new Client({ baseUrl, keyId, secret });

  try {
    const customer = (await cards.post("/api/v1/Customers", {
      type: "individual", firstName: "Zoë", lastName: "García", email: `zoe-${Date.now()}@example.com`,
      phoneCode: "+34", phoneNumber: "600000000", country: "ES", dateOfBirth: "1990-04-12", gender: "female",
    })).json().data;
    console.log("customer", customer.id, customer.firstName);

    const { cardId } = (await cards.post("/api/v1/cards", {
      customerId: customer.id, productId: "00000000-0000-4000-8000-000000000001", currency: "EUR",
    })).json();
    const card = (await cards.get(`/api/v1/cards/${cardId}`)).json();
    console.log("card", card.card_number_masked, card.status);

    const page = (await cards.get(`/api/v1/customers/${customer.id}/transactions`, { from: "2026-01-01T00:00:00+01:00", limit: 5 })).json();
    console.log(page.pagination.total, "transactions");

    const form = new FormData();
    form.append("customerId", customer.id);
    form.append("type", "passport");
    form.append("file", new Blob(["%PDF-1.7"]), "passport.pdf");
    const stored = (await cards.request("POST", "/api/v1/documents", { body: form })).json();
    console.log("document", stored.data[0].documentId);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    console.error(error.message, error.details);
    process.exitCode = 1;
  }
}

main();
