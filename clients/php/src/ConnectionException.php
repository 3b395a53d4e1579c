<?php

declare(strict_types=1);

namespace CardGateway;

/** There was no whole answer. */
final class ConnectionException extends CardException
{
    /**
     * @param bool $sent     whether the server may have received the request
     * @param int  $attempts how many were made
     */
    public function __construct(public bool $sent, public int $attempts, string $trouble)
    {
        $state = $sent ? 'the server may have received it' : 'nothing was sent';
        parent::__construct("no answer after $attempts attempts, $state: $trouble");
    }
}
