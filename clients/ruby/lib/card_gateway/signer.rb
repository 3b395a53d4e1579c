# frozen_string_literal: true

require "digest"
require "openssl"
require "securerandom"

module CardGateway
  # The credentials of one key.
  class Signer
    METHODS = %w[GET HEAD POST PUT PATCH DELETE].freeze
    PATH = %r{\A/(?:[!$&-;=@-\[\]_a-z~]|%\h{2})*\z}n.freeze
    QUERY = /\A(?:[!"$&-~]|%\h{2})*\z/n.freeze
    OVERLONG = /[\xc0\xc1][\x80-\xbf]|\xe0[\x80-\x9f]|\xf0[\x80-\x8f]/n.freeze
    BLANK = '+[:space:]\p{Cf}\ufffd'
    VANISHING = /\A[.#{BLANK}]*\z|\A[#{BLANK}]+\./.freeze
    # The headers of a signed answer, and how many seconds the first may differ from
    # the clock.
    ANSWERED = %w[x-response-timestamp x-response-body-hash x-response-signature].freeze
    MAX_AGE = 300
    private_constant :ANSWERED, :MAX_AGE
    private_constant :PATH, :QUERY, :OVERLONG, :BLANK, :VANISHING

    # Takes the X-API-Key value and the signing secret, exactly as it was shown.
    def initialize(key_id, secret)
      raise UnsignableError, "the key id or the secret is empty; set both" if key_id.to_s.empty? || secret.to_s.empty?

      @key_id = key_id
      @secret = secret
    end

    # Returns the five headers of one attempt. target is the path and query as
    # they are written on the wire.
    def headers(method, target, body = "", timestamp: Time.now.to_i, nonce: SecureRandom.hex(16))
      raise UnsignableError, "the method #{method.inspect} is not one of #{METHODS.join(', ')}" unless METHODS.include?(method)

      Signer.check_target(target)
      hash = Digest::SHA256.base64digest(body)
      {
        "X-API-Key" => @key_id, "X-Timestamp" => timestamp.to_s, "X-Nonce" => nonce, "X-Body-Hash" => hash,
        "X-Signature" => mac(method, target, timestamp, nonce, hash)
      }
    end

    # Raises UnprovenError unless the gateway has signed the answer to the request
    # that was sent with the nonce. The names of its headers are in lower case,
    # several values of one have a comma between. Its body is as it was received,
    # before a Content-Encoding is removed.
    def verify_answer(nonce, answer, now: Time.now.to_i)
      headers = answer.headers
      id = headers["x-request-id"].to_s
      timestamp, hash, signature = ANSWERED.map { |name| headers[name].to_s }
      reason = if ANSWERED.none? { |name| headers.key?(name) }
                 says = ApiError.fields(answer.body)["message"]
                 raise UnprovenError.new(answer.status, headers, "it is not signed#{"; it says #{says.inspect}" if says}", unsigned: true)
               elsif id.empty? || !same?(signature, mac("card-gateway-response-v1", answer.status, id, timestamp, nonce, hash))
                 "X-Response-Signature is not that of the status, the request id, the timestamp, the nonce and the hash"
               elsif !same?(hash, Digest::SHA256.base64digest(answer.body))
                 "X-Response-Body-Hash is not that of the body"
               elsif !/\A[0-9]{1,12}\z/.match?(timestamp) || (now - timestamp.to_i).abs > MAX_AGE
                 "X-Response-Timestamp is more than five minutes from the clock"
               end
      raise UnprovenError.new(answer.status, headers, reason) if reason
    end

    # Keeps the secret out of logs.
    def inspect
      "#<#{self.class} #{@key_id}>"
    end

    # Refuses a path and query that the gateway would refuse, because two servers
    # could read them in two ways.
    def self.check_target(target)
      path, query = target.b.split("?", 2)
      raise UnsignableError, "the path and query are longer than 8 KiB" if target.bytesize > 8192
      raise UnsignableError, "the path must begin with a slash" unless path&.start_with?("/")

      unless PATH.match?(path) && QUERY.match?(query || "")
        raise UnsignableError, "the path or query holds a character that must be percent-encoded, or a % without two " \
                               "hexadecimal digits: write é as %C3%A9, a blank as %20 (ERB::Util.url_encode)"
      end
      decoded = path
      decoded = decoded.gsub(/%\h{2}/n) { |escape| escape[1, 2].hex.chr } while /%\h{2}/n.match?(decoded)
      if decoded.count("/") != path.count("/") || /[\x00-\x1f\x7f\\]/n.match?(decoded)
        raise UnsignableError, "the path holds an encoded slash, backslash or control character; no identifier has one"
      end
      raise UnsignableError, "the path holds overlong UTF-8; encode the shortest form of the character" if OVERLONG.match?(decoded)

      segments = decoded.delete_suffix("/").split("/", -1).drop(1)
      return if path == "/" || (segments.any? && segments.none? { |segment| vanishes?(segment) })

      raise UnsignableError, "the path holds an empty segment, or one of dots and blanks; is an identifier empty?"
    end

    # Whether some servers drop the segment.
    def self.vanishes?(segment)
      name = segment.partition(";").first.force_encoding(Encoding::UTF_8).scrub
      VANISHING.match?(name)
    end
    private_class_method :vanishes?

    private

    def mac(*parts)
      [OpenSSL::HMAC.digest("SHA256", @secret, parts.join("\n"))].pack("m0")
    end

    # Compares in constant time.
    def same?(given, want)
      given.bytesize == want.bytesize && OpenSSL.fixed_length_secure_compare(given, want)
    end
  end
end
