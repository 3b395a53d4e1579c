<?php

declare(strict_types=1);

namespace CardGateway;

/** An answer of the gateway or the issuer. */
final class Answer
{
    /** @param array<string, string> $headers by names in lower case */
    public function __construct(public int $status, public array $headers, public string $body)
    {
    }

    /** Returns a header, or ''. */
    public function header(string $name): string
    {
        return $this->headers[strtolower($name)] ?? '';
    }

    /** Returns the JSON of the body, with arrays for objects. */
    public function json(): mixed
    {
        return json_decode($this->body, true, 512, JSON_THROW_ON_ERROR);
    }
}
