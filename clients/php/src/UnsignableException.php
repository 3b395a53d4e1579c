<?php

declare(strict_types=1);

namespace CardGateway;

/** The request cannot be signed; nothing was sent. The message says what to do. */
final class UnsignableException extends CardException
{
}
