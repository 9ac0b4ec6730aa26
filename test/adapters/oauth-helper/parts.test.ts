/** Unit tests of the helper's settings, addresses, upstream and limits. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { clientAddress, createRequestLimiter } from '../../../oauth-helper/limiter.ts'
import { readHelperSettings } from '../../../oauth-helper/settings.ts'
import { createUpstream, HELPER_UPSTREAM_AT_ONCE_MAX } from '../../../oauth-helper/upstream.ts'
import { HELPER_UPSTREAM_MS_MAX, HTTP_ANSWER_MS_MAX } from '../../../protocol/limits.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { SECRETS } from './helper-fixture.ts'

describe('settings', () => {
  test('missing secrets are named, and no value is quoted', () => {
    const settings = readHelperSettings({ secrets: { TRACKER_CLIENT_ID: 'planted value' } })
    if (settings.ok) throw new Error('it was taken')
    for (const name of Object.keys(SECRETS)) expect(settings.refusal.message).toContain(name)
    expect(settings.refusal.message).not.toContain('planted')
    const withoutSecret = readHelperSettings({ secrets: { ...SECRETS, TRACKER_CLIENT_SECRET: '' } })
    expect(withoutSecret.ok ? '' : withoutSecret.refusal.message).toMatch(/^TRACKER_CLIENT_SECRET: /)
  })

  test('the addresses of the two services have defaults', () => {
    const own = readHelperSettings({ secrets: SECRETS })
    expect(own).toMatchObject({
      value: {
        codehost: { site: 'https://github.com' },
        tracker: {
          authorizeUrl: 'https://linear.app/oauth/authorize',
          tokenUrl: 'https://api.linear.app/oauth/token',
        },
      },
    })
    expect(
      readHelperSettings({
        secrets: SECRETS,
        trackerUrl: 'https://t.example/x/',
        codehostUrl: 'https://c.example',
      }),
    ).toMatchObject({
      value: {
        codehost: { site: 'https://c.example' },
        tracker: {
          authorizeUrl: 'https://t.example/x/oauth/authorize',
          tokenUrl: 'https://t.example/x/oauth/token',
        },
      },
    })
  })

  test.each([
    'http://t.example',
    'ftp://t.example',
    'nonsense',
    'https://u:p@t.example',
    'https://t.example/?a',
  ])('secrets are not sent to %s', (trackerUrl) => {
    const settings = readHelperSettings({ secrets: SECRETS, trackerUrl })
    expect(settings.ok ? '' : settings.refusal.message).toMatch(/^SWITCHYARD_TRACKER_URL: /)
  })
})

describe('addresses', () => {
  test.each([
    ['127.0.0.1', [], 0, '127.0.0.1'],
    ['0000:0000:0000:0000:0000:ffff:7f00:0001', [], 0, '127.0.0.1'],
    ['2001:0db8:0001:0002:0003:0004:0005:0006', [], 0, '2001:db8:1:2::/64'],
    ['::1', [], 0, '0:0:0:0::/64'],
    ['10.0.0.1', ['198.51.100.7'], 0, '10.0.0.1'],
    ['10.0.0.1', ['198.51.100.7'], 1, '198.51.100.7'],
    ['10.0.0.1', ['6.6.6.6, 198.51.100.7'], 1, '198.51.100.7'],
    ['10.0.0.1', ['6.6.6.6', '198.51.100.7'], 1, '198.51.100.7'],
    ['10.0.0.1', ['6.6.6.6, 198.51.100.7, 10.0.0.9'], 2, '198.51.100.7'],
    ['10.0.0.1', ['198.51.100.7'], 2, '10.0.0.1'],
    ['10.0.0.1', [], 1, '10.0.0.1'],
    ['10.0.0.1', ['unknown'], 1, '10.0.0.1'],
    ['10.0.0.1', ['198.51.100.7:5432'], 1, '198.51.100.7'],
    ['10.0.0.1', ['[2001:db8::1]:5432'], 1, '2001:db8:0:0::/64'],
    ['10.0.0.1', ['2001:db8::ffff:1'], 1, '2001:db8:0:0::/64'],
  ])('%s with %j behind %i is %s', (peer, forwarded, proxies, expected) => {
    expect(clientAddress(peer, forwarded, proxies)).toBe(expected)
  })

  test('entries before the balancer’s own do not change the client', () => {
    fc.assert(
      fc.property(fc.array(fc.string()), fc.ipV4(), (lies, address) => {
        expect(clientAddress('10.0.0.1', [...lies, address], 1)).toBe(clientAddress('10.0.0.1', [address], 1))
      }),
    )
  })

  test('any text is parsed without an error', () => {
    fc.assert(
      fc.property(fc.string(), fc.ipV6(), (text, v6) => clientAddress(text, [text, v6], 1).length > 0),
    )
  })
})

describe('upstreams', () => {
  const silent = () => {
    let asked = 0
    const http = {
      send: () => {
        asked += 1
        return new Promise<never>(() => {})
      },
      close: async () => {},
    }
    return { http, asked: () => asked }
  }

  test('a silent upstream times out before the caller does', async () => {
    const clock = new ManualClock()
    const upstream = createUpstream(silent().http, clock)
    const pending = upstream.postForm('the tracker', 'https://t.example/', { secret: 'planted' })
    await clock.advance(HELPER_UPSTREAM_MS_MAX)
    const answer = await pending
    expect(answer).toMatchObject({ is: 'no answer', reply: { status: 502 } })
    expect(JSON.stringify(answer)).not.toContain('planted')
    expect(HELPER_UPSTREAM_MS_MAX).toBeLessThan(HTTP_ANSWER_MS_MAX)
  })

  test('the number of concurrent requests is limited, including those without a caller', async () => {
    const clock = new ManualClock()
    const { http, asked } = silent()
    const upstream = createUpstream(http, clock)
    for (let at = 0; at < HELPER_UPSTREAM_AT_ONCE_MAX; at++)
      void upstream.postForm('w', 'https://t.example/', {})
    await clock.advance(HELPER_UPSTREAM_MS_MAX)
    expect(await upstream.postForm('w', 'https://t.example/', {})).toMatchObject({ reply: { status: 503 } })
    expect(asked()).toBe(HELPER_UPSTREAM_AT_ONCE_MAX)
  })
})

describe('limits', () => {
  test('a bucket starts full and refills at a steady rate', async () => {
    const clock = new ManualClock()
    const limits = createRequestLimiter(clock, 60)
    for (let at = 0; at < 60; at++) expect(limits.waitSeconds('a')).toBeUndefined()
    expect(limits.waitSeconds('a')).toBe(1)
    expect(limits.waitSeconds('b')).toBeUndefined()
    await clock.advance(1_000)
    expect(limits.waitSeconds('a')).toBeUndefined()
    expect(limits.waitSeconds('a')).toBe(1)
    await clock.advance(3_600_000)
    for (let at = 0; at < 60; at++) expect(limits.waitSeconds('a')).toBeUndefined()
    expect(limits.waitSeconds('a')).toBe(1)
  })

  test('the number of buckets is limited, and the most recently used are kept', () => {
    const limits = createRequestLimiter(new ManualClock(), 1, 3)
    for (let at = 0; at < 1_000; at++) {
      limits.waitSeconds('steady')
      limits.waitSeconds(`stranger ${at}`)
    }
    expect(limits.clients).toBe(3)
    expect(limits.waitSeconds('steady')).toBeGreaterThan(0)
  })
})
