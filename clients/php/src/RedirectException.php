<?php

declare(strict_types=1);

namespace CardGateway;

/** The answer leads elsewhere, and was not followed: a signature is for one target of one host. */
final class RedirectException extends CardException
{
    public function __construct(public int $status, public string $location)
    {
        parent::__construct("the server redirects to \"$location\" ($status), which is not followed; correct the base URL");
    }
}
