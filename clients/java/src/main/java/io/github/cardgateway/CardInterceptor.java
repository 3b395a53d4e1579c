package io.github.cardgateway;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.ConnectException;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import okhttp3.HttpUrl;
import okhttp3.Interceptor;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okhttp3.ResponseBody;
import okio.Buffer;

/**
 * Signs what OkHttp sends, each attempt anew. Answers of every status are returned, and failed connections are thrown as
 * OkHttp does it. A request that cannot be signed throws {@link UnsignableException} before anything is sent, and an answer
 * that is not proven {@link UnprovenException}, if the policy verifies answers.
 */
public final class CardInterceptor implements Interceptor {
    private static final String HIDDEN = "X-Card-Client-Retry-After";
    private final Policy policy;

    private CardInterceptor(Policy policy) {
        this.policy = policy;
    }

    /**
     * Adds the interceptor to a builder. It turns off redirects and OkHttp's own repetitions, which would send one
     * signature twice, and to other hosts.
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
        Policy.Exchange exchange = policy.begin(request.method());
        while (true) {
            Optional<Duration> wait;
            try {
                Response response = rename(chain.proceed(sign(request, exchange.sign(target, body), body)), HIDDEN, "Retry-After");
                response = response.newBuilder().request(request).build(); // whose headers may be logged
                Answer answer = answer(response, policy.verifies());
                wait = exchange.afterAnswer(answer);
                if (wait.isEmpty() && !policy.verifies()) {
                    return response;
                }
                if (wait.isEmpty()) {
                    response.close();
                    exchange.verify(answer);
                    return response.newBuilder().body(ResponseBody.create(response.body().contentType(), answer.body())).build();
                }
                response.close();
            } catch (CardException e) {
                throw e;
            } catch (IOException e) {
                wait = exchange.afterFailure(!(e instanceof ConnectException || e instanceof UnknownHostException));
                if (wait.isEmpty() || chain.call().isCanceled()) {
                    throw e;
                }
            }
            sleep(wait.get());
        }
    }

    /** Returns the answer: with its body if it must be verified, else with that of a 401. */
    private static Answer answer(Response response, boolean verifies) throws IOException {
        Map<String, List<String>> headers = response.headers().toMultimap();
        Answer head = new Answer(response.code(), headers, new byte[0]);
        if (verifies && !(head.unsigned() && head.status() < 400)) { // what has no signature may never end
            return new Answer(response.code(), headers, response.body().bytes());
        }
        return response.code() == 401 ? new Answer(response.code(), headers, response.peekBody(1 << 16).bytes()) : head;
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

    private static void sleep(Duration wait) throws InterruptedIOException {
        try {
            Thread.sleep(wait.toMillis());
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("the thread was interrupted");
        }
    }
}
