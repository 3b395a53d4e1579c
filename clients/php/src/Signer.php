<?php

declare(strict_types=1);

namespace CardGateway;

/** The credentials of one key. */
final class Signer
{
    private const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'];
    private const MAX_AGE = 300; // seconds by which the timestamp of an answer may differ from the clock
    private const BLANK = '+\s\p{Z}\p{Cf}\x{85}\x{fffd}';

    /** Takes the X-API-Key value and the signing secret, exactly as it was shown. */
    public function __construct(private string $keyId, #[\SensitiveParameter] private string $secret)
    {
        if ($keyId === '' || $secret === '') {
            throw new UnsignableException('the key id or the secret is empty; set both');
        }
    }

    /**
     * Returns the five headers of one attempt.
     *
     * @param string $method in upper case
     * @param string $target the path and query as they are written on the wire
     *
     * @return array<string, string>
     */
    public function headers(string $method, string $target, string $body = '', ?string $timestamp = null, ?string $nonce = null): array
    {
        if (!in_array($method, self::METHODS, true)) {
            throw new UnsignableException("the method \"$method\" is not one of " . implode(', ', self::METHODS));
        }
        self::checkTarget($target);
        $timestamp ??= (string) time();
        $nonce ??= bin2hex(random_bytes(16));
        $hash = base64_encode(hash('sha256', $body, true));
        $text = implode("\n", [$method, $target, $timestamp, $nonce, $hash]);

        return [
            'X-API-Key' => $this->keyId, 'X-Timestamp' => $timestamp, 'X-Nonce' => $nonce, 'X-Body-Hash' => $hash,
            'X-Signature' => $this->mac($text),
        ];
    }

    /**
     * Verifies that the gateway has signed the answer to the request that was sent with the nonce.
     *
     * @param Answer $answer as it was received, before a Content-Encoding is removed
     * @param int    $now    in Unix seconds
     *
     * @throws UnprovenException it has not
     */
    public function verifyAnswer(string $nonce, Answer $answer, int $now): void
    {
        if ($answer->isUnsigned()) {
            $says = ApiException::fields($answer->body)['message'] ?? null;
            throw new UnprovenException($answer, true, 'it is not signed' . (is_string($says) ? "; it says \"$says\"" : ''));
        }
        $id = $answer->header('X-Request-Id');
        $timestamp = $answer->header('X-Response-Timestamp');
        $hash = $answer->header('X-Response-Body-Hash');
        $want = $this->mac(implode("\n", ['card-gateway-response-v1', $answer->status, $id, $timestamp, $nonce, $hash]));
        if ($id === '' || !hash_equals($want, $answer->header('X-Response-Signature'))) {
            throw new UnprovenException($answer, false, 'X-Response-Signature is not that of the status, the request id, the timestamp, '
                . 'the nonce and the hash');
        }
        if (!hash_equals(base64_encode(hash('sha256', $answer->body, true)), $hash)) {
            throw new UnprovenException($answer, false, 'X-Response-Body-Hash is not that of the body');
        }
        if (!preg_match('/^[0-9]{1,12}$/D', $timestamp) || abs($now - (int) $timestamp) > self::MAX_AGE) {
            throw new UnprovenException($answer, false, 'X-Response-Timestamp is more than five minutes from the clock');
        }
    }

    private function mac(string $text): string
    {
        return base64_encode(hash_hmac('sha256', $text, $this->secret, true));
    }

    /** @return array<string, string> what var_dump shows: not the secret */
    public function __debugInfo(): array
    {
        return ['keyId' => $this->keyId];
    }

    /** Refuses a path and query that the gateway would refuse, because two servers could read them in two ways. */
    public static function checkTarget(string $target): void
    {
        [$path, $query] = explode('?', $target, 2) + [1 => ''];
        $plain = static fn (string $text): string => (string) preg_replace('/%[0-9A-Fa-f]{2}/', '', $text);
        if (strlen($target) > 8192) {
            throw new UnsignableException('the path and query are longer than 8 KiB');
        }
        if (!str_starts_with($path, '/')) {
            throw new UnsignableException('the path must begin with a slash');
        }
        if (!preg_match('~^[!$&-;=@-\[\]_a-z\~]*$~D', $plain($path)) || !preg_match('~^[!"$&-\~]*$~D', $plain($query))) {
            throw new UnsignableException('the path or query holds a character that must be percent-encoded, or a % without two '
                . 'hexadecimal digits: write é as %C3%A9, a blank as %20 (rawurlencode)');
        }
        $decoded = $path;
        while (preg_match('/%[0-9A-Fa-f]{2}/', $decoded)) {
            $decoded = rawurldecode($decoded);
        }
        if (substr_count($decoded, '/') !== substr_count($path, '/') || preg_match('/[\x00-\x1f\x7f\\\\]/', $decoded)) {
            throw new UnsignableException('the path holds an encoded slash, backslash or control character; no identifier has one');
        }
        if (preg_match('/[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]/', $decoded)) {
            throw new UnsignableException('the path holds overlong UTF-8; encode the shortest form of the character');
        }
        $segments = explode('/', (string) preg_replace('~/$~D', '', substr($decoded, 1)));
        if ($path !== '/' && array_filter($segments, [self::class, 'vanishes'])) {
            throw new UnsignableException('the path holds an empty segment, or one of dots and blanks; is an identifier empty?');
        }
    }

    /** Whether some servers drop the segment. */
    private static function vanishes(string $segment): bool
    {
        // What is not UTF-8 becomes U+FFFD.
        $name = htmlspecialchars(explode(';', $segment)[0], ENT_NOQUOTES | ENT_SUBSTITUTE, 'UTF-8');

        return (bool) preg_match('/^[.' . self::BLANK . ']*$|^[' . self::BLANK . ']+\./Du', $name);
    }
}
