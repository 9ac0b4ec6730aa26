/** Known hosts: the keys that known_hosts files make known, as OpenSSH reads them. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import {
  judgeHostKey,
  keyFingerprint,
  keyType,
  keyTypeName,
  knownKeyTypes,
} from '../../../core/provision/known-hosts.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const field = (text: string) => {
  const bytes = Buffer.from(text)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(bytes.length)
  return Buffer.concat([length, bytes])
}
const keyOf = (type: string, content: string) => Buffer.concat([field(type), field(content)])
const KEY = keyOf('ssh-ed25519', 'ours')
const THEIRS = keyOf('ssh-ed25519', 'theirs')
const RSA = keyOf('ssh-rsa', 'ours')
const line = (names: string, key = KEY) => `${names} ${keyType(key)} ${key.toString('base64')} a comment\n`

const judge = (text: string, host: string, port = 22, key = KEY) =>
  judgeHostKey([{ path: 'known_hosts', text }], { host, port, key }).is

describe('a key', () => {
  test.each<[string, string, string, number, string]>([
    ['is known by its plain name', line('forge'), 'forge', 22, 'known'],
    ['is known without regard to case', line('Forge'), 'fORGE', 22, 'known'],
    ['is known by one name of several', line('mica,forge,192.0.2.7'), '192.0.2.7', 22, 'known'],
    ['is known by a pattern', line('*.example.com'), 'forge.example.com', 22, 'known'],
    ['is known by a pattern with one free character', line('forge?'), 'forge7', 22, 'known'],
    [
      'is unknown where a name is excluded',
      line('*.example.com,!forge.example.com'),
      'forge.example.com',
      22,
      'unknown',
    ],
    ['is unknown at another port', line('forge'), 'forge', 2222, 'unknown'],
    ['is known at its own port', line('[forge]:2222'), 'forge', 2222, 'known'],
    ['is unknown at the usual port when another is named', line('[forge]:2222'), 'forge', 22, 'unknown'],
    ['is unknown in a comment', `# ${line('forge')}`, 'forge', 22, 'unknown'],
    ['is unknown where a line is cut off', 'forge ssh-ed25519\n', 'forge', 22, 'unknown'],
    ['is unknown by an authority’s line', `@cert-authority ${line('forge')}`, 'forge', 22, 'unknown'],
    ['is revoked wherever else it stands', `${line('forge')}@revoked ${line('*')}`, 'forge', 22, 'revoked'],
    [
      'is known when the revoked one is another',
      `@revoked ${line('*', THEIRS)}${line('forge')}`,
      'forge',
      22,
      'known',
    ],
    ['has changed when the line names another', line('forge', THEIRS), 'forge', 22, 'changed'],
    ['has changed when only a key of another type is known', line('forge', RSA), 'forge', 22, 'changed'],
    [
      'is known when it stands beside another',
      `${line('forge', THEIRS)}${line('forge')}`,
      'forge',
      22,
      'known',
    ],
    [
      'is unknown when a pattern has characters of regular expressions',
      line('f.rge'),
      'forge',
      22,
      'unknown',
    ],
  ])('%s', (_, text, host, port, is) => {
    expect(judge(text, host, port)).toBe(is)
  })

  test('is known by a hashed name, as ssh-keygen -H writes it', () => {
    const file = join(tempFolder(), 'known_hosts')
    writeFileSync(file, line('forge') + line('[forge]:2222', THEIRS))
    execFileSync('ssh-keygen', ['-q', '-H', '-f', file], { stdio: 'ignore' })
    const text = readFileSync(file, 'utf8')
    expect(text).not.toContain('forge')
    expect([judge(text, 'forge'), judge(text, 'mica'), judge(text, 'forge', 2222)]).toEqual([
      'known',
      'unknown',
      'changed',
    ])
  })
})

test('a changed key names the line that holds the other', () => {
  const files = [{ path: '/home/ann/.ssh/known_hosts', text: `\n${line('forge', THEIRS)}` }]
  expect(judgeHostKey(files, { host: 'forge', port: 22, key: KEY })).toEqual({
    is: 'changed',
    file: '/home/ann/.ssh/known_hosts',
    line: 2,
  })
})

test('the types of the known keys are asked for first', () => {
  const text = line('forge', RSA) + line('forge') + line('mica')
  expect(knownKeyTypes([{ path: '', text }], { host: 'forge', port: 22 })).toEqual(['ssh-rsa', 'ssh-ed25519'])
})

test('a fingerprint is that of ssh-keygen', () => {
  const folder = tempFolder()
  execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')])
  const key = Buffer.from(readFileSync(join(folder, 'key.pub'), 'utf8').split(' ')[1] ?? '', 'base64')
  const printed = execFileSync('ssh-keygen', ['-lf', join(folder, 'key.pub')], { encoding: 'utf8' })
  expect(printed).toContain(` ${keyFingerprint(key)} `)
  expect(keyTypeName(key)).toBe('ED25519')
})

test('a malformed key has no type', () => {
  expect([Buffer.alloc(0), Buffer.alloc(3), Buffer.alloc(40, 0xff)].map(keyType)).toEqual(['', '', ''])
})
