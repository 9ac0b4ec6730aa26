import { describe, expect, test } from '@jest/globals'
import { parseHostUrl } from '../../../worker/host-url.ts'

describe('the address that a worker dials', () => {
  test.each([
    ['http://127.0.0.1:4400', 'ws://127.0.0.1:4400/ws/worker'],
    ['http://localhost:4400/', 'ws://localhost:4400/ws/worker'],
    ['http://[::1]:4400', 'ws://[::1]:4400/ws/worker'],
    ['ws://127.9.9.9', 'ws://127.9.9.9/ws/worker'],
    ['https://host.example', 'wss://host.example/ws/worker'],
    ['https://host.example:4401/', 'wss://host.example:4401/ws/worker'],
    ['wss://host.example/yard/', 'wss://host.example/yard/ws/worker'],
    ['wss://host.example/yard/ws/worker', 'wss://host.example/yard/ws/worker'],
    ['https://[2001:db8::7]:4401', 'wss://[2001:db8::7]:4401/ws/worker'],
    ['HTTPS://Host.Example', 'wss://host.example/ws/worker'],
  ])('%s', (text, url) => {
    expect(parseHostUrl(text, false)).toMatchObject({ ok: true, value: { url, exposed: false } })
  })

  test.each([
    ['nothing', '', 'not the address'],
    ['a bare name', 'host.example', 'write it like https://'],
    ['a name and port', 'host.example:4401', 'write it like'],
    ['another scheme', 'ftp://host.example', 'not the address'],
    ['a password', 'https://me:secret@host.example', 'user or a password'],
    ['a query', 'https://host.example/?a=b', 'end with its path'],
    ['a fragment', 'https://host.example/#a', 'end with its path'],
  ])('not %s', (_what, text, fault) => {
    const answer = parseHostUrl(text, true)
    expect(answer.ok ? '' : answer.refusal.message).toContain(fault)
    expect(JSON.stringify(answer)).not.toContain('secret')
  })

  test.each([
    'http://host.example',
    'ws://10.0.0.7:4401',
    'http://127.0.0.1.evil.example',
    'http://localhost.evil.example',
    'http://[::ffff:127.0.0.1]:1',
    'http://0.0.0.0:4400',
  ])('%s is another machine: refused without encryption, unless --insecure is given', (text) => {
    const refused = parseHostUrl(text, false)
    expect(refused.ok ? '' : refused.refusal.message).toContain('--insecure')
    expect(parseHostUrl(text, true)).toMatchObject({ ok: true, value: { exposed: true, loopback: false } })
  })
})
