<?php

declare(strict_types=1);

namespace CardGateway;

/** An answer with a status of 400 or more, from the gateway or the issuer. */
final class ApiException extends CardException
{
    /** The code of the body, such as VALIDATION_FAILED; empty if it names none. */
    public string $errorCode;

    /** The message of the body. */
    public string $reason;

    /** @var list<array<string, mixed>> the faults that the body lists: field, finding, message */
    public array $details;

    /** By which the operator finds the request. */
    public string $requestId;

    /** Seconds to wait, if the answer says so. */
    public ?int $retryAfter;

    public int $status;

    public function __construct(public Answer $answer)
    {
        $fields = self::fields($answer->body);
        $this->status = $answer->status;
        $this->errorCode = is_string($fields['code'] ?? null) ? $fields['code'] : '';
        $this->reason = is_string($fields['message'] ?? null) ? $fields['message'] : 'the request was refused';
        $this->details = array_values(array_filter((array) ($fields['details'] ?? []), 'is_array'));
        $this->requestId = $answer->header('X-Request-Id');
        $this->retryAfter = Policy::retryAfter($answer);
        parent::__construct("$answer->status $this->errorCode: $this->reason (request id $this->requestId)");
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

        return is_array($document['error'] ?? null) ? $document['error'] : $document;
    }
}
