<?php

declare(strict_types=1);

namespace CardGateway;

/**
 * One request between its attempts, and what an answer to it means. It sends nothing.
 *
 * A call that may change something is signed once, and each attempt sends the same bytes: the gateway accepts them once. It
 * is signed anew only after an answer that says for certain that it was not executed.
 */
final class Exchange
{
    private const REPLAY = 'Replay detected (duplicate nonce)';
    private const WINDOW = 'Request timestamp is outside the allowed window';
    private const REPEAT_WITHIN = 270; // seconds after the signature: the gateway's window is five minutes
    private const GATEWAYS = ['UPSTREAM_ERROR', 'UPSTREAM_TIMEOUT']; // codes of a gateway that does not say more

    /** How many attempts were made. */
    public int $attempts = 0;

    private bool $safe;

    /** @var null|array<string, string> null: the next attempt is signed anew */
    private ?array $headers = null;

    private Call $call; // as it was signed last
    private float $signedAt = 0.0; // by the monotonic clock
    private bool $corrected = false; // the clock was set for this request
    private bool $out = false; // the server has perhaps received what was signed last
    private bool $perhaps = false; // an attempt was perhaps accepted

    /** @param null|Call $chosen by the caller, for the first signature */
    public function __construct(private Policy $policy, private string $method, private ?Call $chosen = null)
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
        ++$this->attempts;
        if ($this->headers === null || $this->safe) {
            $this->call = $this->chosen ?? $this->policy->newCall();
            $this->chosen = null;
            $signer = $this->policy->signer;
            $this->headers = $signer->headers($this->method, $target, $body, (string) $this->call->timestamp, $this->call->nonce);
            $this->signedAt = hrtime(true) / 1e9;
        }

        // An answer whose coding the library removes could not be verified.
        return $this->verifies() ? $this->headers + ['Accept-Encoding' => 'identity'] : $this->headers;
    }

    /** Whether an answer must be verified before it is handed over. */
    public function verifies(): bool
    {
        return $this->policy->verifyAnswers;
    }

    /** Whether the body of an answer with the status is read before it is handed over. */
    public function reads(int $status): bool
    {
        return $this->verifies() || !$this->safe || $status >= 400;
    }

    /**
     * Returns the seconds to wait before another attempt, or null if the answer is final.
     *
     * @throws UnprovenException|TakenException|UnknownException
     */
    public function afterAnswer(Answer $answer): ?float
    {
        $fields = $answer->status >= 400 ? ApiException::fields($answer->body) : [];
        $message = $answer->status === 401 ? $fields['message'] ?? null : null;
        if ($this->safe) {
            return $this->afterSafe($answer, $message === self::WINDOW);
        }
        $this->out = true;
        try {
            $this->verify($answer, $message === self::WINDOW);
        } catch (UnprovenException $unproven) {
            return $this->afterUnproven($unproven);
        }
        $asked = Policy::retryAfter($answer) ?? 0;
        if (ApiException::saysNotExecuted($fields)) {
            $wait = $this->wait($asked);
            if ($wait !== null) {
                $this->headers = null;
                $this->out = $this->perhaps = false;
            }

            return $wait;
        }
        if (($fields['accepted'] ?? null) === true) {
            return null;
        }
        if ($message === self::REPLAY) {
            throw new TakenException($this->call, $answer->header('X-Request-Id'), $this->perhaps);
        }
        if ($message === self::WINDOW && $this->attempts === 1 && !$this->corrected && $this->policy->correctClock($answer)) {
            $this->headers = null;
            $this->corrected = true;
            $this->out = false;
            $this->attempts = 0; // it was refused before anything was done

            return 0.0;
        }

        return $this->afterRefusal($answer, $fields);
    }

    /** @param array<mixed> $fields */
    private function afterRefusal(Answer $answer, array $fields): ?float
    {
        $status = $answer->status;
        $code = $fields['code'] ?? null;
        $says = is_bool($fields['accepted'] ?? null);
        $gateways = $says || in_array($code, self::GATEWAYS, true) || $status === 401 && $code === 'UNAUTHORIZED';
        $between = !$gateways && !$this->verifies() && ($status === 502 || $status === 504);
        if ($status === 429 || $status === 503 || $between) {
            $this->perhaps = $this->perhaps || !$says;

            // The same bytes may still be accepted, from whoever has them.
            return $this->wait(Policy::retryAfter($answer) ?? 0) ?? throw $this->unknown(new ApiException($answer));
        }
        if ($gateways && $this->perhaps) {
            throw $this->unknown(new ApiException($answer));
        }

        return null;
    }

    /** The same for an answer that is not believed: it says nothing. */
    public function afterUnproven(UnprovenException $unproven): ?float
    {
        if ($this->safe) {
            throw $unproven;
        }
        $this->out = $this->perhaps = true;

        return $this->wait(0) ?? throw $this->unknown($unproven);
    }

    /**
     * The same for a connection that failed; $sent is whether the server may have received the request. null: nothing was
     * sent, or the request changes nothing, and the caller throws the cause itself.
     */
    public function afterFailure(bool $sent, \Throwable $cause): ?float
    {
        $this->out = $this->out || $sent;
        $this->perhaps = $this->perhaps || $sent;
        $wait = $this->wait(0);
        if ($wait === null && $this->out && !$this->safe) {
            throw $this->unknown($cause);
        }

        return $wait;
    }

    private function afterSafe(Answer $answer, bool $window): ?float
    {
        if ($window && !$this->corrected) {
            $this->verify($answer, true);
            if ($this->policy->correctClock($answer)) {
                $this->corrected = true;
                --$this->attempts; // it was refused before anything was done

                return 0.0;
            }
        }
        $asked = Policy::retryAfter($answer);
        $unforwarded = $answer->header('X-Gateway-Forwarded') === 'no';
        $repeats = $answer->status === 429 || $answer->status === 503 && ($unforwarded || $asked !== null);
        $wait = $repeats ? $this->wait($asked ?? 0) : null;
        if ($wait === null) {
            $this->verify($answer, $window);
        }

        return $wait;
    }

    /** Verifies the answer, if it must be. Of a refusal because of our clock, the time cannot be compared with it. */
    private function verify(Answer $answer, bool $window): void
    {
        if (!$this->verifies()) {
            return;
        }
        if (!$answer->readable) {
            throw new UnprovenException($answer, $answer->isUnsigned(), 'its body is a stream that cannot be read twice; do not ask for a stream');
        }
        $now = $window ? (int) $answer->header('X-Response-Timestamp') : $this->policy->time() + $this->policy->offset;
        $this->policy->signer->verifyAnswer($this->call->nonce, $answer, $now);
    }

    private function unknown(\Throwable $cause): UnknownException
    {
        return new UnknownException($this->call, $this->attempts, $cause);
    }

    private function wait(int $asked): ?float
    {
        // Jitter, so that many clients do not come back together.
        $wait = $asked + mt_rand() / mt_getrandmax() * min(8.0, 0.25 * 2 ** $this->attempts);
        $late = !$this->safe && hrtime(true) / 1e9 - $this->signedAt + $wait > self::REPEAT_WITHIN;

        return $late || $this->attempts >= $this->policy->attempts || $asked > $this->policy->maxWait ? null : $wait;
    }
}
