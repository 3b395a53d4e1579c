<?php

declare(strict_types=1);

namespace CardGateway;

/** An answer of the gateway or the issuer. */
final class Answer
{
    /**
     * @param array<string, string> $headers  by names in lower case, several of one name with commas between
     * @param bool                  $readable false if the body is a stream that cannot be read twice, and was not read
     */
    public function __construct(public int $status, public array $headers, public string $body, public bool $readable = true)
    {
    }

    /** Returns a header, or ''. */
    public function header(string $name): string
    {
        return $this->headers[strtolower($name)] ?? '';
    }

    /** Whether it has no header of a signature. */
    public function isUnsigned(): bool
    {
        return !isset($this->headers['x-response-timestamp'])
            && !isset($this->headers['x-response-body-hash']) && !isset($this->headers['x-response-signature']);
    }

    /** Returns the JSON of the body, with arrays for objects. */
    public function json(): mixed
    {
        return json_decode($this->body, true, 512, JSON_THROW_ON_ERROR);
    }
}
