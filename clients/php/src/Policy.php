<?php

declare(strict_types=1);

namespace CardGateway;

/** What all requests of one key share: attempts, waits and the clock. It sends nothing. */
final class Policy
{
    public Signer $signer;
    public string $baseUrl;

    /** Seconds by which the gateway's clock is ahead. */
    public int $offset = 0;

    /** @var callable(): int */
    private $now;

    /** @var callable(string): void */
    private $warn;

    /**
     * @param string                      $baseUrl  scheme and host of the gateway
     * @param int                         $attempts the largest number of attempts; 1 for no repetition
     * @param int                         $maxWait  the longest wait before another one, in seconds; if the server asks for
     *                                              more, there is none
     * @param null|callable(): int        $now      the time; null means time()
     * @param null|callable(string): void $warn     is told that the clock of this machine is wrong; null means error_log()
     * @param bool                        $verifyAnswers believes only answers that the gateway has signed for the request; the
     *                                              error for others is an UnprovenException. It needs a gateway with the
     *                                              option sign_responses. Without it somebody between can forge answers, and
     *                                              nothing is certain
     */
    public function __construct(
        string $baseUrl,
        string $keyId,
        #[\SensitiveParameter] string $secret,
        public int $attempts = 3,
        public int $maxWait = 30,
        ?callable $now = null,
        ?callable $warn = null,
        public bool $verifyAnswers = false,
    ) {
        if (!preg_match('~^https?://[^/?#]+(/[^?#]*)?$~D', $baseUrl)) {
            throw new UnsignableException("the base URL \"$baseUrl\" must begin with https:// and a host");
        }
        $this->baseUrl = rtrim($baseUrl, '/');
        $this->signer = new Signer($keyId, $secret);
        $this->now = $now ?? 'time';
        $this->warn = $warn ?? 'error_log';
    }

    /** Returns the state of a new request. $call is what its caller has chosen. */
    public function begin(string $method, ?Call $call = null): Exchange
    {
        return new Exchange($this, $method, $call);
    }

    /** Returns a nonce and the time of the gateway's clock, as far as it is known. */
    public function newCall(): Call
    {
        return new Call(bin2hex(random_bytes(16)), $this->time() + $this->offset);
    }

    /** Returns the time in Unix seconds. */
    public function time(): int
    {
        return ($this->now)();
    }

    /** Whether the URL is of the gateway, so that it may see a signature. */
    public function serves(string $url): bool
    {
        $origin = static function (string $url): array {
            $parts = parse_url($url) ?: [];
            $scheme = strtolower($parts['scheme'] ?? '');

            return [$scheme, strtolower($parts['host'] ?? ''), $parts['port'] ?? ($scheme === 'https' ? 443 : 80)];
        };

        return $origin($url) === $origin($this->baseUrl);
    }

    /** Whether the Date of an answer from the URL may set the clock: over TLS, and from this machine. */
    public static function trustsDate(string $url): bool
    {
        return (bool) preg_match('~^https://|^http://(localhost|127(\.\d+){3}|\[::1\])(:\d+)?(/|$)~D', $url);
    }

    /** Returns Retry-After in its form of seconds. */
    public static function retryAfter(Answer $answer): ?int
    {
        return preg_match('/^\d{1,9}$/D', $answer->header('Retry-After')) ? (int) $answer->header('Retry-After') : null;
    }

    /**
     * Takes over the gateway's clock from a refusal that says that ours is wrong. Only an answer that is signed, or a server
     * that is authenticated or on this machine, may set the clock.
     */
    public function correctClock(Answer $answer): bool
    {
        if ($this->verifyAnswers) {
            $moment = (int) $answer->header('X-Response-Timestamp');
        } else {
            $date = \DateTimeImmutable::createFromFormat('D, d M Y H:i:s \G\M\T', $answer->header('Date'), new \DateTimeZone('UTC'));
            $moment = $date && self::trustsDate($this->baseUrl) ? $date->getTimestamp() : PHP_INT_MIN;
        }
        $offset = $moment - $this->time();
        if (abs($offset) > 24 * 3600) {
            return false;
        }
        $this->offset = $offset;
        ($this->warn)("the clock of this machine differs from the gateway's by $offset s; set it by NTP");

        return true;
    }
}
