<?php

declare(strict_types=1);

namespace CardGateway;

/**
 * The gateway had accepted the call before: an earlier attempt has arrived, and its answer was lost. The issuer has executed
 * it at most once, perhaps not: read what it should have made. Do not send it as a new call.
 */
final class TakenException extends CardException
{
    /** @param bool $perhapsByUs whether an attempt of this request was perhaps what took it */
    public function __construct(public Call $call, public string $requestId, public bool $perhapsByUs)
    {
        parent::__construct("the call $call->nonce was taken before, and its answer is lost; read what it should have made "
            . "(request id $requestId)");
    }
}
