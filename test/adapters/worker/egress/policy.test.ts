/** Tests of the network policy: accepted target forms, and which entries allow a target. */
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { makeNetworkPolicy, parseTarget } from '../../../../worker/sandbox/egress/policy.ts'

describe('accepted forms of a target', () => {
  test.each([
    ['example.org:443', { host: 'example.org', port: 443, isLiteral: false }],
    ['a-b.c9.xn--p1ai:1', { host: 'a-b.c9.xn--p1ai', port: 1, isLiteral: false }],
    ['1.example.org:65535', { host: '1.example.org', port: 65_535, isLiteral: false }],
    ['1.1.1.1:443', { host: '1.1.1.1', port: 443, isLiteral: true }],
    ['[2620:fe::fe]:443', { host: '2620:fe::fe', port: 443, isLiteral: true }],
  ])('%s', (authority, target) => {
    expect(parseTarget(authority)).toEqual({ ok: true, value: target })
  })

  test.each([
    ['upper case', ['Example.org:443', 'example.ORG:443', '[2620:FE::fe]:443']],
    ['a dot at the end, at the start, doubled', ['example.org.:443', '.example.org:443', 'example..org:443']],
    ['a name that is this machine', ['localhost:443', 'a.localhost:443', 'localhost.:443']],
    ['a name of this network', ['intranet:443', 'metadata:80']],
    [
      'a number for an address',
      ['2130706433:443', '0x7f000001:443', '017700000001:443', '127.1:443', '0:443'],
    ],
    [
      'parts in hex and octal',
      ['0x7f.0.0.1:443', '0177.0.0.1:443', '127.0.0.01:443', '1.1.1.0x1:443', 'a.0x7f:1'],
    ],
    [
      'a last label that reads as a number',
      ['example.1:443', 'example.1a:443', '1.2.3.4.5:443', '256.1.1.1:443'],
    ],
    [
      'IPv6 without brackets, with a zone, not an address',
      ['::1:443', '[fe80::1%eth0]:443', '[::g]:443', '[]:443'],
    ],
    ['a user', ['user@example.org:443', 'user:pass@example.org:443', 'example.org:443@evil.org:443']],
    ['percent signs', ['example%2eorg:443', '%6cocalhost:443', 'example.org%00.evil.org:443']],
    [
      'NUL, line ends, spaces, tabs',
      ['example.org\0.evil.org:443', 'example.org:443\n', 'example.org :443', '\texample.org:443'],
    ],
    [
      'letters that only look like it',
      ['exаmple.org:443', 'example。org:443', 'ⓔxample.org:443', 'ａ.org:443'],
    ],
    [
      'no port, or none there is',
      ['example.org', 'example.org:', 'example.org:0', 'example.org:65536', 'example.org:99999'],
    ],
    [
      'a port in other ways',
      ['example.org:0443', 'example.org:+443', 'example.org:4e2', 'example.org:0x1bb', 'example.org:443:443'],
    ],
    [
      'an address with a scheme or path',
      ['https://example.org:443', '//example.org:443', 'example.org:443/', 'example.org/:443'],
    ],
    [
      'dashes at the edge of a label',
      ['-example.org:443', 'example-.org:443', 'example.-org:443', 'example.org-:443'],
    ],
    ['too long', [`${'a'.repeat(64)}.org:443`, `${'a.'.repeat(126)}org:443`]],
    ['nothing', ['', ':443', '*:443', '*.example.org:443', '_dmarc.example.org:443', '[1.1.1.1]:443']],
  ])('refused: %s', (_, authorities) => {
    expect(authorities.filter((authority) => parseTarget(authority).ok)).toEqual([])
  })

  test('accepted targets keep their exact spelling, and contain only letters, digits, dots and dashes', () => {
    const piece = fc.constantFrom(
      'a',
      'example',
      'org',
      '.',
      '-',
      ':',
      '443',
      '0',
      'x',
      '@',
      '%',
      '[',
      ']',
      '::1',
      'A',
      '\0',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 9 }), (pieces) => {
        const authority = pieces.join('')
        const target = parseTarget(authority)
        if (!target.ok) return
        const { host, port } = target.value
        expect([`${host}:${port}`, `[${host}]:${port}`]).toContain(authority)
        expect(host).toMatch(/^[a-z0-9.-]+$|^[0-9a-f:.]+$/)
      }),
      { numRuns: 20_000 },
    )
  })
})

describe('entries that allow a target', () => {
  function allows(entry: string, authority: string): boolean {
    const target = parseTarget(authority)
    return (
      target.ok &&
      makeNetworkPolicy({ network: 'allowlist', allowedHosts: [entry] }).checkTarget(target.value).ok
    )
  }

  test.each([
    ['example.org', 'example.org:443'],
    ['example.org', 'example.org:80'],
    ['Example.ORG', 'example.org:443'],
    ['example.org:8443', 'example.org:8443'],
    ['*.example.org', 'a.example.org:443'],
    ['*.example.org', 'a.b.example.org:80'],
    ['*.example.org:22', 'git.example.org:22'],
    ['1.1.1.1', '1.1.1.1:443'],
    ['1.1.1.1:53', '1.1.1.1:53'],
  ])('%s allows %s', (entry, authority) => {
    expect(allows(entry, authority)).toBe(true)
  })

  test.each([
    ['example.org', 'example.org:22', 'another port'],
    ['example.org:8443', 'example.org:443', 'the port is exact'],
    ['example.org', 'www.example.org:443', 'a subdomain'],
    ['example.org', 'notexample.org:443', 'it only ends alike'],
    ['example.org', 'example.org.evil.com:443', 'it only begins alike'],
    ['example.org', 'evil.com:443', 'another name'],
    ['example.org', 'exampleXorg.com:443', 'a dot is a dot'],
    ['a.example.org', 'aXexample.org:443', 'a dot is a dot'],
    ['*.example.org', 'example.org:443', 'the stem of a wildcard'],
    ['*.example.org', 'evilexample.org:443', 'it only ends alike'],
    ['*.example.org', 'a.example.org.evil.com:443', 'it only begins alike'],
    ['*.example.org:22', 'a.example.org:443', 'the port is exact'],
    ['1.1.1.1', '1.1.1.2:443', 'another address'],
    ['1.1.1.1', '[::ffff:1.1.1.1]:443', 'the same address in another form'],
    ['1.1.1.1', '[64:ff9b::1.1.1.1]:443', 'the same address in another form'],
    ['*.1.1.1', '1.1.1.1:443', 'a wildcard over addresses'],
  ])('%s does not allow %s: %s', (entry, authority) => {
    expect(allows(entry, authority)).toBe(false)
  })

  test('a refusal says which entry to add, and where', () => {
    const { checkTarget } = makeNetworkPolicy({ network: 'allowlist', allowedHosts: [] })
    const cure = (host: string, port: number) => {
      const answer = checkTarget({ host, port, isLiteral: false })
      return answer.ok ? '' : answer.refusal.message
    }
    expect(cure('example.org', 443)).toMatch(/sandbox\.allowedHosts; add "example\.org" /)
    expect(cure('example.org', 22)).toMatch(/sandbox\.allowedHosts; add "example\.org:22" /)
  })

  test.each(['127.0.0.1', '10.1.2.3', '2620:fe::fe'])(
    '%s can be added in vain, and is not proposed',
    (host) => {
      const { checkTarget } = makeNetworkPolicy({
        network: 'allowlist',
        allowedHosts: ['example.org'],
      })
      expect(checkTarget({ host, port: 443, isLiteral: true })).toMatchObject({
        refusal: { kind: 'forbidden', message: expect.stringMatching(/^(?!.*add ).*by its name$/) },
      })
    },
  )

  test.each([
    'localhost',
    'intranet',
    'a.localhost',
    '127.0.0.1',
    '10.1.2.3:443',
    '169.254.169.254',
    '2130706433',
    '0x7f.0.0.1',
    '127.1',
    '*.1.1.1.1',
    'example..org',
    'example.org:0',
    'example.org:99999',
    '*',
    '*.*.example.org',
    '**.example.org',
    'https://example.org',
    'example.org/path',
    'user@example.org',
    '[2620:fe::fe]:443',
    '',
  ])('the entry %j allows nothing, and is reported', (entry) => {
    const { uselessEntries } = makeNetworkPolicy({
      network: 'allowlist',
      allowedHosts: ['example.org', entry],
    })
    expect(uselessEntries).toEqual([
      expect.stringContaining(`sandbox.allowedHosts has ${JSON.stringify(entry)}, which`),
    ])
  })

  test('an open network needs no entries', () => {
    const { checkTarget, uselessEntries } = makeNetworkPolicy({
      network: 'open',
      allowedHosts: ['localhost'],
    })
    expect(checkTarget({ host: 'example.org', port: 22, isLiteral: false }).ok).toBe(true)
    expect(uselessEntries).toEqual([])
  })

  test('a listed name allows exactly itself', () => {
    const label = fc.stringMatching(/^[a-z]([a-z0-9-]{0,4}[a-z0-9])?$/)
    const name = fc.array(label, { minLength: 2, maxLength: 4 }).map((labels) => labels.join('.'))
    fc.assert(
      fc.property(name, name, (listed, asked) => {
        expect(allows(listed, `${asked}:443`)).toBe(asked === listed)
        expect(allows(listed, `${listed}:443`)).toBe(true)
        expect(allows(`*.${listed}`, `${asked}:443`)).toBe(asked !== listed && asked.endsWith(`.${listed}`))
      }),
      { numRuns: 2_000 },
    )
  })
})

test('hosts can be allowed later, and an entry that allows nothing stays without effect', () => {
  const policy = makeNetworkPolicy({ network: 'allowlist', allowedHosts: ['a.example'] })
  const allows = (host: string, port = 443) => policy.checkTarget({ host, port, isLiteral: false }).ok
  expect(allows('b.example')).toBe(false)
  policy.allow(['b.example:443', 'intranet', '10.0.0.1'])
  expect([allows('a.example'), allows('b.example')]).toEqual([true, true])
  expect([allows('b.example', 80), allows('intranet')]).toEqual([false, false])
})
