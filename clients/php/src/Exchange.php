<?php

declare(strict_types=1);

namespace CardGateway;

/** One request between its attempts. It sends nothing. */
final class Exchange
{
    /** How many attempts were made. */
    public int $attempts = 0;

    private bool $corrected = false;
    private bool $safe;
    private string $nonce = '';

    public function __construct(private Policy $policy, private string $method)
    {
        $this->safe = $method === 'GET' || $method === 'HEAD';
    }

    /**
     * Returns the headers of the next attempt.
     *
     * @return array<string, string>
     */
    public function sign(string $target, string $body): array
    {
        $timestamp = (string) ($this->policy->time() + $this->policy->offset);
        $headers = $this->policy->signer->headers($this->method, $target, $body, $timestamp);
        ++$this->attempts;
        $this->nonce = $headers['X-Nonce'];

        // An answer whose coding the library removes could not be verified.
        return $this->verifies() ? $headers + ['Accept-Encoding' => 'identity'] : $headers;
    }

    /** Whether an answer must be verified before it is handed over. */
    public function verifies(): bool
    {
        return $this->policy->verifyAnswers;
    }

    /** Verifies the answer to the last attempt, if it must be. */
    public function verify(Answer $answer): void
    {
        if ($this->verifies()) {
            $this->policy->signer->verifyAnswer($this->nonce, $answer, $this->policy->time() + $this->policy->offset);
        }
    }

    /** Returns the seconds to wait before another attempt, or null if the answer is final. */
    public function afterAnswer(Answer $answer): ?float
    {
        if ($answer->status === 401 && !$this->corrected && $this->policy->correctClock($answer)) {
            $this->corrected = true;
            --$this->attempts; // it was refused before anything was done

            return 0.0;
        }
        $asked = Policy::retryAfter($answer);
        $unforwarded = $answer->header('X-Gateway-Forwarded') === 'no';
        if ($answer->status === 429 || $answer->status === 503 && ($unforwarded || $this->safe && $asked !== null)) {
            return $this->wait($asked ?? 0);
        }

        return null;
    }

    /** The same for a connection that failed; $sent is whether the server may have received the request. */
    public function afterFailure(bool $sent): ?float
    {
        return $this->safe || !$sent ? $this->wait(0) : null;
    }

    private function wait(int $asked): ?float
    {
        if ($this->attempts >= $this->policy->attempts || $asked > $this->policy->maxWait) {
            return null;
        }

        // Jitter, so that many clients do not come back together.
        return $asked + mt_rand() / mt_getrandmax() * min(8.0, 0.25 * 2 ** $this->attempts);
    }
}
