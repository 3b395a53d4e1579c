package io.github.cardgateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import okhttp3.HttpUrl;
import okhttp3.Interceptor;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okio.Buffer;

/**
 * Signs what OkHttp sends, and repeats it as {@link CardClient} does. Answers of every status are returned, and failed connections
 * are thrown as OkHttp does it. A request that cannot be signed throws {@link UnsignableException} before anything is sent, a call
 * whose outcome is not an answer {@link TakenException} or {@link UnknownException}, and an answer that is not proven
 * {@link UnprovenException}, if the policy verifies answers. A request with the headers X-Nonce and X-Timestamp is signed with
 * these.
 */
public final class CardInterceptor implements Interceptor {
    private static final String HIDDEN = "X-Card-Client-Retry-After";
    private static final int LARGEST = 8 << 20; // answer that the gateway signs
    private final Policy policy;

    private CardInterceptor(Policy policy) {
        this.policy = policy;
    }

    /**
     * Adds the interceptor to a builder. Call it after every addInterceptor: an interceptor that is added later sees a request that
     * is signed, and must not alter it. One that is added before must not repeat a POST, PUT, PATCH or DELETE, which would be a
     * second call. It turns off redirects and OkHttp's own repetitions, which would send a signature to other hosts, and without
     * being counted.
     */
    public static OkHttpClient.Builder install(OkHttpClient.Builder builder, Policy policy) {
        return builder.followRedirects(false).retryOnConnectionFailure(false)
            .addInterceptor(new CardInterceptor(policy))
            // OkHttp repeats each 503 with Retry-After: 0 by itself, so it must not see one.
            .addNetworkInterceptor(chain -> rename(chain.proceed(chain.request()), "Retry-After", HIDDEN));
    }

    @Override
    public Response intercept(Chain chain) throws IOException {
        Request request = chain.request();
        HttpUrl url = request.url(), base = HttpUrl.get(policy.base);
        if (!url.scheme().equals(base.scheme()) || !url.host().equals(base.host()) || url.port() != base.port()) {
            throw new UnsignableException(url.host() + " is not the host of the base URL");
        }
        String target = url.encodedPath() + (url.encodedQuery() == null ? "" : "?" + url.encodedQuery());
        byte[] body = read(request.body());
        Exchange exchange = new Exchange(policy, request.method(), chosen(request));
        while (true) {
            Response response = null;
            Optional<Duration> wait;
            try {
                response = rename(chain.proceed(sign(request, exchange.sign(target, body), body)), HIDDEN, "Retry-After");
                response = response.newBuilder().request(request).build(); // whose headers may be logged
                wait = exchange.afterAnswer(answer(response, exchange));
                if (wait.isEmpty()) {
                    return response;
                }
            } catch (CardException e) {
                close(response);
                throw e;
            } catch (IOException e) {
                wait = exchange.afterFailure(Policy.maybeSent(e));
                if (wait.isEmpty() || chain.call().isCanceled() || Thread.currentThread().isInterrupted()) {
                    close(response);
                    exchange.lost(e);
                    throw e;
                }
            }
            close(response);
            sleep(wait.get(), exchange);
        }
    }

    private static Answer answer(Response response, Exchange exchange) throws IOException {
        Map<String, List<String>> headers = response.headers().toMultimap();
        Answer head = new Answer(response.code(), headers, new byte[0]);
        return exchange.reads(head) ? new Answer(response.code(), headers, response.peekBody(LARGEST + 1).bytes()) : head;
    }

    private static void close(Response response) {
        if (response != null) {
            response.close();
        }
    }

    private static Call chosen(Request request) {
        String nonce = request.header("X-Nonce"), timestamp = request.header("X-Timestamp");
        return nonce == null || timestamp == null || !timestamp.matches("[0-9]{1,11}") ? null
            : new Call(nonce, Instant.ofEpochSecond(Long.parseLong(timestamp)));
    }

    private static byte[] read(RequestBody body) throws IOException {
        Buffer buffer = new Buffer();
        if (body != null) {
            body.writeTo(buffer);
        }
        return buffer.readByteArray();
    }

    private static Request sign(Request request, Map<String, String> headers, byte[] body) {
        Request.Builder signed = request.newBuilder();
        headers.forEach(signed::header);
        if (request.body() != null) {
            signed.method(request.method(), RequestBody.create(request.body().contentType(), body));
        }
        return signed.build();
    }

    private static Response rename(Response response, String from, String to) {
        String value = response.header(from);
        return value == null ? response : response.newBuilder().removeHeader(from).header(to, value).build();
    }

    private static void sleep(Duration wait, Exchange exchange) throws IOException {
        try {
            Thread.sleep(wait.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            IOException interrupted = new InterruptedIOException("the thread was interrupted");
            exchange.lost(interrupted);
            throw interrupted;
        }
    }
}
