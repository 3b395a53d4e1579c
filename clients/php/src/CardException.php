<?php

declare(strict_types=1);

namespace CardGateway;

/** Any failure of a request. */
class CardException extends \RuntimeException
{
}
