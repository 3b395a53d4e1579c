package io.github.cardgateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.StringJoiner;

/** Calls the card API of one gateway with one key, from any number of threads. */
public final class CardClient {
    /** The version of this package. */
    public static final String VERSION = "0.2.0";

    private final Policy policy;
    private final HttpClient http;

    /** Takes the scheme and host of the gateway, the key id and the secret. */
    public CardClient(String baseUrl, String keyId, String secret) throws UnsignableException {
        this(new Policy(baseUrl, keyId, secret));
    }

    /** Takes a policy with other bounds than the default. */
    public CardClient(Policy policy) {
        this.policy = policy;
        // Over TLS it speaks HTTP/2; without, an offer to change to it would go with each request.
        HttpClient.Version version = "https".equals(policy.base.getScheme()) ? HttpClient.Version.HTTP_2 : HttpClient.Version.HTTP_1_1;
        http = HttpClient.newBuilder().version(version).connectTimeout(Duration.ofSeconds(10))
            .followRedirects(HttpClient.Redirect.NEVER).build();
    }

    /** Reads the path with the parameters of the query. */
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

    /**
     * Sends a request.
     *
     * @param path the escaped path and query
     * @param body null for none
     * @throws CardException one of UnsignableException, ConnectionException, UnprovenException, RedirectException and ApiException
     */
    public Answer request(String method, String path, Body body, Map<String, String> headers) throws CardException {
        String verb = method.toUpperCase(Locale.ROOT);
        String target = (policy.base.getRawPath() == null ? "" : policy.base.getRawPath()) + path;
        byte[] content = body == null ? new byte[0] : body.bytes;
        Signer.checkTarget(target);
        if (target.endsWith("?")) {
            throw new UnsignableException("java.net.http would drop the ? at the end; leave it out");
        }
        Policy.Exchange exchange = policy.begin(verb);
        while (true) {
            HttpRequest request = build(verb, target, body, headers, exchange.sign(target, content));
            Optional<Duration> wait;
            try {
                Answer answer = attempt(request);
                wait = exchange.afterAnswer(answer);
                if (wait.isEmpty()) {
                    exchange.verify(answer);
                    return judge(answer);
                }
            } catch (CardException e) {
                throw e;
            } catch (IOException e) {
                boolean sent = !(e instanceof ConnectException || e instanceof HttpConnectTimeoutException);
                wait = exchange.afterFailure(sent);
                if (wait.isEmpty() || e instanceof InterruptedIOException) {
                    throw new ConnectionException(sent, exchange.attempts(), e);
                }
            }
            sleep(wait.get(), exchange);
        }
    }

    private HttpRequest build(String method, String target, Body body, Map<String, String> headers, Map<String, String> signed)
        throws UnsignableException {
        URI url = URI.create(policy.base.getScheme() + "://" + policy.base.getRawAuthority() + target);
        HttpRequest.Builder b;
        try {
            b = HttpRequest.newBuilder(url).timeout(Duration.ofSeconds(60));
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
        try {
            HttpResponse<byte[]> response = http.send(request, BodyHandlers.ofByteArray());
            return new Answer(response.statusCode(), response.headers().map(), response.body());
        } catch (InterruptedException e) {
            throw interrupted();
        }
    }

    private static void sleep(Duration wait, Policy.Exchange exchange) throws ConnectionException {
        try {
            Thread.sleep(wait.toMillis());
        } catch (InterruptedException e) {
            throw new ConnectionException(true, exchange.attempts(), interrupted());
        }
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

    /** Returns the path with the parameters, each escaped but for letters, digits and -._~ */
    public static String withQuery(String path, Map<String, ?> query) {
        StringJoiner joined = new StringJoiner("&");
        query.forEach((name, value) -> joined.add(escape(name) + "=" + escape(String.valueOf(value))));
        return query.isEmpty() ? path : path + "?" + joined;
    }

    private static String escape(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
    }
}
