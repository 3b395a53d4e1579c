<?php

declare(strict_types=1);

namespace CardGateway;

/** An answer with a status of 400 or more, from the gateway or the issuer. */
final class ApiException extends CardException
{
    /** What statuses mean, for answers that do not say more. */
    private const TEXTS = [
        400 => 'Bad Request', 401 => 'Unauthorized', 403 => 'Forbidden', 404 => 'Not Found', 405 => 'Method Not Allowed',
        408 => 'Request Timeout', 409 => 'Conflict', 410 => 'Gone', 413 => 'Content Too Large', 415 => 'Unsupported Media Type',
        422 => 'Unprocessable Content', 429 => 'Too Many Requests', 500 => 'Internal Server Error', 501 => 'Not Implemented',
        502 => 'Bad Gateway', 503 => 'Service Unavailable', 504 => 'Gateway Timeout',
    ];

    /** The code of the body, such as VALIDATION_FAILED; empty if it names none. */
    public string $errorCode;

    /** The message of the body, or what the status means. */
    public string $reason;

    /** @var list<array<string, mixed>> the faults that the body lists: field, finding, message */
    public array $details;

    /** By which the operator finds the request. */
    public string $requestId;

    /** Seconds to wait, if the answer says so. */
    public ?int $retryAfter;

    /** Whether the gateway says that it has accepted the request, and no issuer has seen it, so that it never is executed. */
    public bool $notExecuted;

    public int $status;

    public function __construct(public Answer $answer)
    {
        $fields = self::fields($answer->body);
        $text = static fn (string $name): string => is_string($fields[$name] ?? null) ? $fields[$name] : '';
        $problem = implode(': ', array_filter([$text('title'), $text('detail')], 'strlen')); // RFC 9457
        $this->status = $answer->status;
        $this->errorCode = $text('code');
        $this->reason = $text('message') ?: $problem ?: self::TEXTS[$answer->status] ?? 'refused';
        $this->details = array_values(array_filter((array) ($fields['details'] ?? $fields['errors'] ?? []), 'is_array'));
        $this->requestId = $answer->header('X-Request-Id');
        $this->retryAfter = Policy::retryAfter($answer);
        $this->notExecuted = self::saysNotExecuted($fields);
        parent::__construct("$answer->status $this->errorCode: $this->reason (request id $this->requestId)");
    }

    /**
     * Whether the fields of an error body say that the request is certainly not executed.
     *
     * @param array<mixed> $fields
     */
    public static function saysNotExecuted(array $fields): bool
    {
        return ($fields['accepted'] ?? null) === true && ($fields['forwarded'] ?? null) === false;
    }

    /**
     * Returns code, message and details of an error body: the gateway has them in error, some issuers at the top level.
     *
     * @return array<mixed>
     */
    public static function fields(string $body): array
    {
        $document = json_decode($body, true);
        if (!is_array($document)) {
            return [];
        }

        if (is_array($document['error'] ?? null)) {
            return $document['error'];
        }
        unset($document['accepted'], $document['forwarded']); // the gateway's words alone

        return $document;
    }
}
