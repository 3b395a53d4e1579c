package io.github.cardgateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpTimeoutException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Calls the card API of one gateway with one key, from any number of threads. */
public final class CardClient {
    /** The version of this package. */
    public static final String VERSION = "0.2.0";

    private final Policy policy;
    private final HttpClient http;
    private Duration timeout = Duration.ofSeconds(60);

    /** Takes the scheme and host of the gateway, the key id and the secret. */
    public CardClient(String baseUrl, String keyId, String secret) throws UnsignableException {
        this(new Policy(baseUrl, keyId, secret));
    }

    /** Takes a policy with other bounds than the default. */
    public CardClient(Policy policy) throws UnsignableException {
        this(policy, HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build());
    }

    /**
     * Takes the HttpClient that sends, with its proxy, TLS and time to connect.
     *
     * @throws UnsignableException it follows redirects, or java.net.http repeats calls by itself
     */
    public CardClient(Policy policy, HttpClient http) throws UnsignableException {
        if (http.followRedirects() != HttpClient.Redirect.NEVER) {
            throw new UnsignableException("the HttpClient follows redirects, with the headers of a request; set followRedirects(NEVER)");
        }
        String repeats = System.getProperty("jdk.httpclient.enableAllMethodRetry");
        if (repeats != null && (repeats.isEmpty() || Boolean.parseBoolean(repeats))) {
            throw new UnsignableException("with jdk.httpclient.enableAllMethodRetry, java.net.http repeats a call by itself, and does not "
                + "say so; leave this property out");
        }
        this.policy = policy;
        this.http = http;
    }

    /** Sets the longest time of one attempt, 60 s by default. */
    public CardClient timeout(Duration attempt) {
        timeout = attempt;
        return this;
    }

    /** Reads the path with the parameters of the query; those that are null are left out. */
    public Answer get(String path, Map<String, ?> query) throws CardException {
        return request("GET", withQuery(path, query), null, Map.of());
    }

    /** Reads the path. */
    public Answer get(String path) throws CardException {
        return get(path, Map.of());
    }

    /** Sends a value as JSON: a Map, an Iterable, or text that is JSON already; null for no body. */
    public Answer post(String path, Object json) throws CardException {
        return request("POST", path, json == null ? null : Body.json(json), Map.of());
    }

    /** The same with PATCH. */
    public Answer patch(String path, Object json) throws CardException {
        return request("PATCH", path, Body.json(json), Map.of());
    }

    /** Returns a nonce and a timestamp for a request, to be stored before it is sent. */
    public Call newCall() {
        return policy.newCall();
    }

    /**
     * Makes sure that a call whose outcome is not known is never executed. Returns if it was not, and never will be.
     *
     * @throws TakenException it was taken before; read what it made
     * @throws UnknownException that could not be found out, or the time of the call has passed. Any other error decides nothing
     */
    public void closeCall(Call call) throws CardException {
        UnknownException passed = new UnknownException(call, 0, new IllegalStateException(
            "its time has passed, so that nothing can execute it any more, and the gateway has forgotten its nonce"));
        if (policy.newCall().timestamp().isAfter(call.until())) {
            throw passed;
        }
        try {
            // With the timestamp of the call: a gateway that has lost its nonce refuses that.
            Answer closed = request("POST", "/gateway/v1/nonce/close", null, Map.of(), call);
            if (!call.nonce().equals(closed.json("data", "nonce"))) { // the timestamp was refused, and another nonce signed
                throw passed;
            }
        } catch (TakenException e) {
            throw e.perhaps ? new UnknownException(call, 0, e) : e; // perhaps by this close, whose answer was lost
        }
    }

    /** Sends a request with a nonce and a timestamp of its own. */
    public Answer request(String method, String path, Body body, Map<String, String> headers) throws CardException {
        return request(method, path, body, headers, null);
    }

    /**
     * Sends a request.
     *
     * @param path the escaped path and query
     * @param body null for none
     * @param call what {@link #newCall} has returned, if it was stored; else null
     * @throws CardException one of UnsignableException, ConnectionException, UnprovenException, RedirectException, ApiException,
     *     TakenException and UnknownException
     */
    public Answer request(String method, String path, Body body, Map<String, String> headers, Call call) throws CardException {
        String verb = method.toUpperCase(Locale.ROOT);
        String target = (policy.base.getRawPath() == null ? "" : policy.base.getRawPath()) + path;
        byte[] content = body == null ? new byte[0] : body.bytes;
        Signer.checkTarget(target);
        if (target.endsWith("?")) {
            throw new UnsignableException("java.net.http would drop the ? at the end; leave it out");
        }
        Exchange exchange = new Exchange(policy, verb, call);
        while (true) {
            HttpRequest request = build(verb, target, body, headers, exchange.sign(target, content));
            Optional<Duration> wait;
            try {
                Answer answer = attempt(request);
                wait = exchange.afterAnswer(answer);
                if (wait.isEmpty()) {
                    return judge(answer);
                }
            } catch (CardException e) {
                throw e;
            } catch (IOException e) {
                wait = exchange.afterFailure(Policy.maybeSent(e));
                if (wait.isEmpty() || e instanceof InterruptedIOException) {
                    throw ended(exchange, e);
                }
            }
            try {
                Thread.sleep(wait.get().toMillis());
            } catch (InterruptedException e) {
                throw ended(exchange, interrupted());
            }
        }
    }

    private HttpRequest build(String method, String target, Body body, Map<String, String> headers, Map<String, String> signed)
        throws UnsignableException {
        URI url = URI.create(policy.base.getScheme() + "://" + policy.base.getRawAuthority() + target);
        HttpRequest.Builder b;
        try {
            b = HttpRequest.newBuilder(url).timeout(timeout);
            if (url.getScheme().equals("http")) { // else an offer to change to HTTP/2 would go with each request
                b.version(HttpClient.Version.HTTP_1_1);
            }
            b.method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofByteArray(body.bytes));
            b.setHeader("User-Agent", "card-gateway-java/" + VERSION);
            if (body != null) {
                b.setHeader("Content-Type", body.contentType);
            }
            headers.forEach(b::setHeader);
            signed.forEach(b::setHeader);
        } catch (IllegalArgumentException e) {
            throw new UnsignableException("java.net.http refuses the request: " + e.getMessage());
        }
        return b.build();
    }

    private Answer attempt(HttpRequest request) throws IOException {
        CompletableFuture<HttpResponse<byte[]>> sent = http.sendAsync(request, BodyHandlers.ofByteArray());
        try {
            // The request's own timeout ends with the head of the answer. It goes first: it knows whether there was a connection.
            HttpResponse<byte[]> response = sent.get(timeout.toMillis() + 500, TimeUnit.MILLISECONDS);
            return new Answer(response.statusCode(), response.headers().map(), response.body());
        } catch (ExecutionException e) {
            throw e.getCause() instanceof IOException ? (IOException) e.getCause() : new IOException(e.getCause());
        } catch (TimeoutException e) {
            sent.cancel(true);
            throw new HttpTimeoutException("there was no whole answer within " + timeout);
        } catch (InterruptedException e) {
            sent.cancel(true);
            throw interrupted();
        }
    }

    private static ConnectionException ended(Exchange exchange, IOException e) throws UnknownException {
        exchange.lost(e);
        return new ConnectionException(exchange.sent(), exchange.attempts(), e);
    }

    private static IOException interrupted() {
        Thread.currentThread().interrupt();
        return new InterruptedIOException("the thread was interrupted");
    }

    private static Answer judge(Answer answer) throws CardException {
        if (answer.status() >= 400) {
            throw new ApiException(answer);
        }
        if (answer.status() >= 300) {
            throw new RedirectException(answer.status(), answer.header("Location").orElse(""));
        }
        return answer;
    }

    /** Returns the path with the parameters that are not null, each escaped but for letters, digits and -._~ */
    public static String withQuery(String path, Map<String, ?> query) {
        StringJoiner joined = new StringJoiner("&", path.contains("?") ? "&" : "?", "").setEmptyValue("");
        query.forEach((name, value) -> {
            if (value != null) {
                joined.add(escape(name) + "=" + escape(value.toString()));
            }
        });
        return path + joined;
    }

    private static String escape(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }
}
