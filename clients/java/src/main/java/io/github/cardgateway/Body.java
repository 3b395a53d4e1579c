package io.github.cardgateway;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.UUID;

/** What a request carries. It is built once: what is signed is what is sent. */
public final class Body {
    final String contentType;
    final byte[] bytes;

    private Body(String contentType, byte[] bytes) {
        this.contentType = contentType;
        this.bytes = bytes;
    }

    /** Returns a body of bytes. */
    public static Body of(String contentType, byte[] bytes) {
        return new Body(contentType, bytes);
    }

    /** Returns a value as JSON: a Map, an Iterable, or text that is JSON already. */
    public static Body json(Object value) {
        String text = value instanceof String ? (String) value : Json.write(value);
        return new Body("application/json", text.getBytes(StandardCharsets.UTF_8));
    }

    /** Returns a form with the fields and one file. */
    public static Body form(Map<String, String> fields, String field, String filename, byte[] content) {
        String boundary = UUID.randomUUID().toString();
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        fields.forEach((name, value) -> part(out, boundary, "\"" + quoted(name) + "\"\r\n\r\n", value.getBytes(StandardCharsets.UTF_8)));
        part(out, boundary, "\"" + quoted(field) + "\"; filename=\"" + quoted(filename)
            + "\"\r\nContent-Type: application/octet-stream\r\n\r\n", content);
        out.writeBytes(("--" + boundary + "--\r\n").getBytes(StandardCharsets.UTF_8));
        return new Body("multipart/form-data; boundary=" + boundary, out.toByteArray());
    }

    private static void part(ByteArrayOutputStream out, String boundary, String head, byte[] content) {
        String start = "--" + boundary + "\r\nContent-Disposition: form-data; name=" + head;
        out.writeBytes(start.getBytes(StandardCharsets.UTF_8));
        out.writeBytes(content);
        out.writeBytes("\r\n".getBytes(StandardCharsets.UTF_8));
    }

    private static String quoted(String name) {
        return name.replace("\"", "%22").replace("\r", "%0D").replace("\n", "%0A");
    }
}
