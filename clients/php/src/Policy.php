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
     * @param int                         $attempts the largest number of attempts
     * @param int                         $maxWait  the longest wait before another one, in seconds; if the server asks for
     *                                              more, its answer is final
     * @param null|callable(): int        $now      the time; null means time()
     * @param null|callable(string): void $warn     is told that the clock of this machine is wrong; null means error_log()
     * @param bool                        $verifyAnswers makes every answer that the gateway has not signed for the request an
     *                                              UnprovenException; it needs a gateway with the option sign_responses
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

    /** Returns the state of a new request. */
    public function begin(string $method): Exchange
    {
        return new Exchange($this, $method);
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

    /** Takes over the gateway's clock if the answer says that ours is wrong. */
    public function correctClock(Answer $answer): bool
    {
        $message = ApiException::fields($answer->body)['message'] ?? null;
        $date = \DateTimeImmutable::createFromFormat('D, d M Y H:i:s \G\M\T', $answer->header('Date'), new \DateTimeZone('UTC'));
        if ($message !== 'Request timestamp is outside the allowed window' || !$date || !self::trustsDate($this->baseUrl)) {
            return false;
        }
        $offset = $date->getTimestamp() - $this->time();
        if (abs($offset) > 24 * 3600) {
            return false;
        }
        $this->offset = $offset;
        ($this->warn)("the clock of this machine differs from the gateway's by $offset s; set it by NTP");

        return true;
    }
}
