<?php

declare(strict_types=1);

namespace CardGateway;

/** Names one call: what was signed once, and is accepted at most once. */
final class Call
{
    /** @param int $timestamp in Unix seconds */
    public function __construct(public string $nonce, public int $timestamp)
    {
    }

    /** Returns when nothing can execute the call any more, in Unix seconds. */
    public function until(): int
    {
        return $this->timestamp + 360;
    }
}
