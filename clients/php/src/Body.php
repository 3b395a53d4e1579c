<?php

declare(strict_types=1);

namespace CardGateway;

/** What a request carries. It is built once: what is signed is what is sent. */
final class Body
{
    public function __construct(public string $contentType, public string $bytes)
    {
    }

    /** Returns a value as JSON. */
    public static function json(mixed $value): self
    {
        return new self('application/json', json_encode($value, JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES));
    }

    /**
     * Returns a form.
     *
     * @param array<string, string>                 $fields
     * @param array<string, array{string, string}>  $files  the name and the content of the file of each field
     */
    public static function form(array $fields, array $files): self
    {
        $boundary = bin2hex(random_bytes(16));
        $quoted = static fn (string $name): string => strtr($name, ['"' => '%22', "\r" => '%0D', "\n" => '%0A']);
        $bytes = '';
        foreach ($fields as $name => $value) {
            $bytes .= "--$boundary\r\nContent-Disposition: form-data; name=\"{$quoted($name)}\"\r\n\r\n$value\r\n";
        }
        foreach ($files as $name => [$filename, $content]) {
            $bytes .= "--$boundary\r\nContent-Disposition: form-data; name=\"{$quoted($name)}\"; filename=\"{$quoted($filename)}\"\r\n"
                . "Content-Type: application/octet-stream\r\n\r\n$content\r\n";
        }

        return new self("multipart/form-data; boundary=$boundary", "$bytes--$boundary--\r\n");
    }
}
