<?php

declare(strict_types=1);

namespace CardGateway;

/**
 * The gateway has not signed the answer for this request, while the policy verifies answers. The request may have been
 * executed.
 */
final class UnprovenException extends CardException
{
    /** The status, as it was received. */
    public int $status;

    /** The request id, as it was received. */
    public string $requestId;

    /** @param bool $unsigned whether the answer has no signature at all, as refusals with 400 and 401 */
    public function __construct(Answer $answer, public bool $unsigned, string $reason)
    {
        $this->status = $answer->status;
        $this->requestId = $answer->header('X-Request-Id');
        parent::__construct("the answer $answer->status is not proven to be the gateway's (request id $this->requestId): $reason");
    }
}
