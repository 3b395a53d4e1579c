<?php

declare(strict_types=1);

namespace CardGateway;

/**
 * It is not known whether the call was executed, or will be before $call->until(). Client::closeCall settles it. The
 * previous exception is that of the last attempt.
 */
final class UnknownException extends CardException
{
    /** @param int $attempts how many were made */
    public function __construct(public Call $call, public int $attempts, \Throwable $cause)
    {
        $until = gmdate('Y-m-d\TH:i:s\Z', $call->until());
        parent::__construct("it is not known whether the call $call->nonce was executed, and it may be until $until; close it, or read "
            . "what it should have made: after $attempts attempts: {$cause->getMessage()}", 0, $cause);
    }
}
