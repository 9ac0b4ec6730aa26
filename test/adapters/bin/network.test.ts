/** The certificates and proxies that the commands trust and use. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { readAuthorities, readProxies } from '../../../bin/process/network.ts'
import { tempFolder } from '../../support/temp-folder.ts'

describe('trusted authorities', () => {
  test('are those of Node, of the system, and of the named file', () => {
    const folder = tempFolder()
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=x']
    execFileSync('openssl', [...made, '-keyout', key, '-out', cert], { stdio: 'ignore' })
    const without = readAuthorities(undefined, {})
    const named = readAuthorities(cert, {})
    const around = readAuthorities(undefined, { NODE_EXTRA_CA_CERTS: cert })
    if (!without.ok || !named.ok || !around.ok) throw new Error('refused')
    expect(without.value.length).toBeGreaterThan(100)
    expect(named.value).toHaveLength(without.value.length + 1)
    expect(around.value).toEqual(named.value)
  })

  test.each([
    ['is not there', '/nowhere/ca.pem'],
    ['is no certificate', join(tempFolder(), 'ca.pem')],
  ])('in a file that %s are refused with its name', (_what, path) => {
    if (!path.startsWith('/nowhere')) writeFileSync(path, 'hello')
    const answer = readAuthorities(path, {})
    expect(answer.ok ? '' : answer.refusal.message).toContain(`--ca-file: ${path} is no certificate`)
  })
})

describe('proxies', () => {
  test.each([
    ['nothing', {}, undefined],
    ['empty values', { http_proxy: '', HTTPS_PROXY: '' }, undefined],
    [
      'an HTTPS proxy',
      { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'a,b' },
      { http: '', https: 'http://p:1', noProxy: 'a,b' },
    ],
    [
      'lower-case names first',
      { https_proxy: 'http://small:1', HTTPS_PROXY: 'http://large:1' },
      { http: '', https: 'http://small:1', noProxy: '' },
    ],
    [
      'one proxy for all protocols',
      { all_proxy: 'http://p:1', no_proxy: 'a' },
      { http: 'http://p:1', https: 'http://p:1', noProxy: 'a' },
    ],
  ])('%s', (_what, env, proxies) => {
    expect(readProxies(env)).toEqual({ ok: true, value: proxies })
  })

  test('an invalid proxy URL is refused, and not printed, because it may contain a password', () => {
    const answer = readProxies({ https_proxy: 'me:secret@:::' })
    expect(answer.ok).toBe(false)
    expect(JSON.stringify(answer)).not.toContain('secret')
  })
})
