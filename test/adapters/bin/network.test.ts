import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { readAuthorities, readProxies } from '../../../bin/network.ts'
import { tempFolder } from '../../support/real-files.ts'

describe('whose certificates are trusted', () => {
  test('those of Node and of the system, and the one that is named', () => {
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
  ])('one that %s is refused by name', (_what, path) => {
    if (!path.startsWith('/nowhere')) writeFileSync(path, 'hello')
    const answer = readAuthorities(path, {})
    expect(answer.ok ? '' : answer.refusal.message).toContain(`--ca-file: ${path} is no certificate`)
  })
})

describe('the way out of this network', () => {
  test.each([
    ['nothing', {}, undefined],
    ['empty words', { http_proxy: '', HTTPS_PROXY: '' }, undefined],
    [
      'one for encrypted lines',
      { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'a,b' },
      { http: '', https: 'http://p:1', noProxy: 'a,b' },
    ],
    [
      'small letters before large ones',
      { https_proxy: 'http://small:1', HTTPS_PROXY: 'http://large:1' },
      { http: '', https: 'http://small:1', noProxy: '' },
    ],
    [
      'one for all',
      { all_proxy: 'http://p:1', no_proxy: 'a' },
      { http: 'http://p:1', https: 'http://p:1', noProxy: 'a' },
    ],
  ])('%s', (_what, env, way) => {
    expect(readProxies(env)).toEqual({ ok: true, value: way })
  })

  test('one that is no URL is refused, and not repeated: it may hold a password', () => {
    const answer = readProxies({ https_proxy: 'me:secret@:::' })
    expect(answer.ok).toBe(false)
    expect(JSON.stringify(answer)).not.toContain('secret')
  })
})
