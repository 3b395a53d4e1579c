// Is only compiled, as a program of an integrator would be.
import { ApiError, Client, ConnectionError, createFetch, UnprovenError, UnsignableError } from "card-gateway-client";

const options = { baseUrl: "https://cards.example", keyId: "ck_test_1", secret: "secret", verifyAnswers: true };

export async function types(): Promise<string> {
  try {
    const answer = await new Client({ ...options, timeout: 10 }).get("/api/v1/cards", { limit: 5 });
    const page = answer.json<{ data: Array<{ id: string }> }>();
    await new Client(options).request("POST", "/api/v1/documents", { body: new FormData() });
    const response: Response = await createFetch(options)("/api/v1/cards", { method: "POST", body: "{}" });
    return page.data[0].id + response.status;
  } catch (error) {
    if (error instanceof ApiError) return error.code + error.details.map((d) => d.message) + (error.retryAfter ?? 0);
    if (error instanceof ConnectionError) return String(error.sent);
    if (error instanceof UnprovenError) return error.requestId + String(error.unsigned);
    if (error instanceof UnsignableError) return error.message;
    // @ts-expect-error it has no such option
    new Client({ ...options, key: "x" });
    throw error;
  }
}
