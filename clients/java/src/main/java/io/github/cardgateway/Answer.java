package io.github.cardgateway;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** An answer of the gateway or the issuer. */
public final class Answer {
    private final int status;
    private final Map<String, List<String>> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    private final byte[] body;

    /** Takes the status, the headers by name, and the bytes of the body. */
    public Answer(int status, Map<String, List<String>> headers, byte[] body) {
        this.status = status;
        headers.forEach((name, values) -> {
            if (name != null) {
                this.headers.merge(name, values, (a, b) -> Stream.concat(a.stream(), b.stream()).collect(Collectors.toList()));
            }
        });
        this.body = body;
    }

    /** Returns the status. */
    public int status() {
        return status;
    }

    /** Returns the first value of a header. */
    public Optional<String> header(String name) {
        List<String> values = headers.get(name);
        return values == null || values.isEmpty() ? Optional.empty() : Optional.of(values.get(0));
    }

    /** Returns all values of a header, with commas between; empty if there is none. */
    String joined(String name) {
        return String.join(", ", headers.getOrDefault(name, List.of()));
    }

    /** Returns whether the answer has no header of a signature. */
    boolean unsigned() {
        return !headers.containsKey("X-Response-Timestamp") && !headers.containsKey("X-Response-Body-Hash")
            && !headers.containsKey("X-Response-Signature");
    }

    /** Returns the bytes of the body. */
    public byte[] body() {
        return body;
    }

    /**
     * Returns the JSON of the body: a Map, List, String, BigDecimal, Boolean or null.
     *
     * @throws IllegalArgumentException if it is none
     */
    public Object json() {
        return Json.parse(body);
    }

    /** Returns a value of the JSON, by the names of objects and the indices of lists that lead to it. */
    public Object json(Object... way) {
        Object value = json();
        for (Object step : way) {
            value = step instanceof Integer ? ((List<?>) value).get((Integer) step) : ((Map<?, ?>) value).get(step);
        }
        return value;
    }
}
