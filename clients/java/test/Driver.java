package io.github.cardgateway;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import okhttp3.MediaType;
import okhttp3.MultipartBody;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.RequestBody;
import okhttp3.Response;
import okio.BufferedSink;

/**
 * Runs the cases of tests/clients/matrix through this client: one JSON object a line on standard input, one answer a line
 * on standard output.
 */
public final class Driver {
    interface Way {
        Map<String, Object> send() throws IOException;
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String line; (line = in.readLine()) != null;) {
            Map<String, Object> answer;
            try {
                answer = run((Map<?, ?>) Json.parse(line.getBytes(StandardCharsets.UTF_8)));
            } catch (Exception e) {
                answer = Map.of("error", describe(e));
            }
            out.println(Json.write(answer));
        }
        System.exit(0); // OkHttp keeps threads
    }

    static Map<String, Object> run(Map<?, ?> c) throws Exception {
        switch ((String) c.get("do")) {
            case "hello":
                return Map.of("adapters", Map.of("client", true, "okhttp", false), "version", CardClient.VERSION);
            case "trusts":
                return Map.of("trusted", Policy.trustsDate(URI.create((String) c.get("base"))));
            case "sign":
                Map<String, String> headers = new Signer(text(c, "key_id"), text(c, "secret"))
                    .headers(text(c, "method"), text(c, "target"), bytes(c), text(c, "timestamp"), text(c, "nonce"));
                return Map.of("signature", headers.get("X-Signature"), "body_hash", headers.get("X-Body-Hash"));
            case "verify":
                Map<String, List<String>> received = new HashMap<>();
                ((Map<?, ?>) c.get("answer")).forEach((name, values) -> {
                    received.put((String) name, new ArrayList<>());
                    ((List<?>) values).forEach(value -> received.get(name).add((String) value));
                });
                new Signer(text(c, "key_id"), text(c, "secret")).verifyAnswer(text(c, "nonce"),
                    new Answer(((Number) c.get("status")).intValue(), received, bytes(c)), Instant.ofEpochSecond(((Number) c.get("now")).longValue()));
                return Map.of("verified", true);
            case "parallel":
                return parallel(way(c), ((Number) c.get("count")).intValue());
            case "close":
                new CardClient(policy(c)).closeCall(call(c));
                return Map.of("closed", true);
            default:
                return way(c).send();
        }
    }

    static Map<String, Object> parallel(Way way, int count) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(count);
        List<Future<Map<String, Object>>> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            all.add(pool.submit(way::send));
        }
        List<Object> statuses = new ArrayList<>();
        for (Future<Map<String, Object>> each : all) {
            statuses.add(each.get().get("status"));
        }
        pool.shutdown();
        return Map.of("statuses", statuses);
    }

    static Policy policy(Map<?, ?> c) throws CardException {
        int attempts = ((Number) c.get("attempts")).intValue();
        return new Policy(text(c, "base"), text(c, "key_id"), text(c, "secret")).attempts(attempts == 0 ? 3 : attempts)
            .clock(Clock.offset(Clock.systemUTC(), Duration.ofSeconds(((Number) c.get("clock")).longValue())))
            .verifyAnswers((Boolean) c.get("verify_answers"));
    }

    static Call call(Map<?, ?> c) {
        return c.get("nonce") == null ? null : new Call(text(c, "nonce"), Instant.ofEpochSecond(Long.parseLong(text(c, "timestamp"))));
    }

    static Way way(Map<?, ?> c) throws CardException {
        Policy policy = policy(c);
        Map<String, String> headers = new HashMap<>();
        if (c.get("headers") != null) {
            ((Map<?, ?>) c.get("headers")).forEach((name, value) -> headers.put((String) name, (String) value));
        }
        String target = CardClient.withQuery(text(c, "target"), query(c));
        return text(c, "adapter").equals("okhttp") ? okhttp(c, policy, target, headers) : client(c, policy, target, headers);
    }

    static Way client(Map<?, ?> c, Policy policy, String target, Map<String, String> headers) throws CardException {
        CardClient client = new CardClient(policy);
        Body body = form(c) ? Body.form(Map.of("type", "passport"), "file", "Zoë.pdf", bytes(c))
            : (Boolean) c.get("has_body") ? Body.of("application/json", bytes(c)) : null;
        return () -> answer(client.request(text(c, "method"), target, body, headers, call(c)));
    }

    static Way okhttp(Map<?, ?> c, Policy policy, String target, Map<String, String> headers) throws CardException {
        OkHttpClient client = CardInterceptor.install(new OkHttpClient.Builder(), policy).build();
        MediaType json = MediaType.get("application/json");
        RequestBody body = (Boolean) c.get("has_body") || text(c, "method").startsWith("P") ? RequestBody.create(json, bytes(c)) : null;
        if (form(c)) {
            body = new MultipartBody.Builder().setType(MultipartBody.FORM).addFormDataPart("type", "passport")
                .addFormDataPart("file", "Zoë.pdf", RequestBody.create(null, bytes(c))).build();
        } else if ("stream".equals(c.get("kind"))) {
            body = new RequestBody() {
                @Override
                public MediaType contentType() {
                    return json;
                }

                @Override
                public void writeTo(BufferedSink sink) throws IOException {
                    sink.write(bytes(c));
                }
            };
        }
        Request.Builder request = new Request.Builder();
        try {
            request.url(text(c, "base") + target).method(text(c, "method"), body);
        } catch (IllegalArgumentException e) { // OkHttp's own refusal
            throw new UnsignableException(e.getMessage());
        }
        headers.forEach(request::header);
        if (call(c) != null) {
            request.header("X-Nonce", text(c, "nonce")).header("X-Timestamp", text(c, "timestamp"));
        }
        Request built = request.build();
        return () -> {
            try (Response response = client.newCall(built).execute()) {
                return answer(new Answer(response.code(), response.headers().toMultimap(), response.body().bytes()));
            }
        };
    }

    static boolean form(Map<?, ?> c) {
        return "form".equals(c.get("kind"));
    }

    static Map<String, Object> answer(Answer answer) {
        return Map.of("status", answer.status(), "body", Base64.getEncoder().encodeToString(answer.body()));
    }

    static String text(Map<?, ?> c, String name) {
        return c.get(name) == null ? "" : (String) c.get(name);
    }

    static byte[] bytes(Map<?, ?> c) {
        return Base64.getDecoder().decode((String) c.get("body"));
    }

    static Map<String, Object> query(Map<?, ?> c) {
        Map<String, Object> query = new LinkedHashMap<>();
        if (c.get("query") != null) {
            ((List<?>) c.get("query")).forEach(pair -> query.put((String) ((List<?>) pair).get(0), ((List<?>) pair).get(1)));
        }
        return query;
    }

    static Map<String, Object> describe(Exception e) {
        if (e instanceof UnsignableException) {
            return Map.of("type", "unsignable", "message", e.getMessage());
        }
        if (e instanceof ApiException) {
            ApiException api = (ApiException) e;
            return Map.of("type", "api", "status", api.status(), "code", api.code(), "message", api.reason(), "details", api.details(),
                "request_id", api.requestId(), "retry_after", api.retryAfter().orElse(Duration.ZERO).getSeconds(),
                "not_executed", api.notExecuted());
        }
        if (e instanceof TakenException) {
            return undecided("taken", ((TakenException) e).call(), 0, e);
        }
        if (e instanceof UnknownException) {
            return undecided("unknown", ((UnknownException) e).call(), ((UnknownException) e).attempts(), e);
        }
        if (e instanceof UnprovenException) {
            UnprovenException unproven = (UnprovenException) e;
            return Map.of("type", "unproven", "status", unproven.status(), "unsigned", unproven.unsigned(), "message", e.getMessage());
        }
        if (e instanceof RedirectException) {
            return Map.of("type", "redirect", "location", ((RedirectException) e).location());
        }
        if (e instanceof ConnectionException) {
            return Map.of("type", "connection", "sent", ((ConnectionException) e).sent(), "attempts", ((ConnectionException) e).attempts());
        }
        if (e instanceof IOException) {
            return Map.of("type", "connection");
        }
        e.printStackTrace();
        return Map.of("type", "other", "message", e.toString());
    }

    static Map<String, Object> undecided(String type, Call call, int attempts, Exception e) {
        return Map.of("type", type, "nonce", call.nonce(), "timestamp", call.timestamp().getEpochSecond(),
            "until", call.until().getEpochSecond(), "attempts", attempts, "message", e.getMessage());
    }
}
