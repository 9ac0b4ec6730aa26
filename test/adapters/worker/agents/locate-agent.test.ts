/** Tests of locating programs where people install them, and of the mounted paths, on a real disk. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { locateProgram, type SearchPlace } from '../../../../worker/agents/locate-agent.ts'

const WANTED = { program: 'agent', installCommand: 'npm install agent' }
/** Not below /tmp, which a sandbox mounts itself. */
let home = ''

beforeEach(() => {
  home = join(mkdtempSync('/var/tmp/switchyard-find-'), 'me')
  mkdirSync(home)
  chmodSync(dirname(home), 0o755)
})
afterEach(() => rmSync(dirname(home), { recursive: true, force: true }))

function file(path: string, text = 'ELF', mode = 0o755): string {
  const whole = join(home, path)
  mkdirSync(dirname(whole), { recursive: true })
  writeFileSync(whole, text)
  chmodSync(whole, mode)
  return whole
}

function link(path: string, to: string): void {
  mkdirSync(dirname(join(home, path)), { recursive: true })
  symlinkSync(to, join(home, path))
}

const where = (...folders: string[]): SearchPlace => ({
  path: ['relative', ...folders.map((folder) => join(home, folder)), '/usr/bin'].join(':'),
  home,
  hasOwnUsers: false,
})

test('a package of nvm is mounted with its interpreter, and nothing else of the home folder', async () => {
  const version = '.nvm/versions/node/v20.1.0'
  const program = file(`${version}/lib/node_modules/@x/agent/cli.js`, '#!/usr/bin/env node\nrun()')
  const node = file(`${version}/bin/node`)
  link(`${version}/bin/agent`, '../lib/node_modules/@x/agent/cli.js')
  expect(await locateProgram(WANTED, where(`${version}/bin`))).toEqual({
    is: 'found',
    program,
    readOnlyPaths: [join(home, version, 'lib/node_modules'), node],
    path: [dirname(node)],
  })
})

test('a single file is mounted as that file', async () => {
  const program = file('.local/share/agent/versions/2.1')
  link('.local/bin/agent', '../share/agent/versions/2.1')
  expect(await locateProgram(WANTED, where('.local/bin'))).toEqual({
    is: 'found',
    program,
    readOnlyPaths: [program],
  })
})

test('a package with parts in a package store is mounted with the store', async () => {
  file('pnpm/global/5/.pnpm/agent@1/node_modules/agent/cli.js', '#!/bin/sh\n')
  link('bin/agent', '../pnpm/global/5/.pnpm/agent@1/node_modules/agent/cli.js')
  expect(await locateProgram(WANTED, where('bin'))).toMatchObject({
    readOnlyPaths: [join(home, 'pnpm/global/5')],
  })
})

test('a program in /usr needs no mounts', async () => {
  expect(await locateProgram({ ...WANTED, program: 'env' }, where())).toEqual({
    is: 'found',
    program: '/usr/bin/env',
    readOnlyPaths: [],
  })
})

test('a missing, non-executable or irregular file is not found, and the reason names the install command', async () => {
  file('a/agent', 'x', 0o644)
  mkdirSync(join(home, 'b/agent'), { recursive: true })
  link('c/agent', 'nowhere')
  const missing = {
    is: 'missing',
    reason: expect.stringMatching(/^agent is not installed.*: npm install agent$/),
  }
  expect(await locateProgram(WANTED, { ...where('a', 'b', 'c'), path: where('a', 'b', 'c').path })).toEqual(
    missing,
  )
})

test.each([
  ['#!/usr/bin/env nowhere-at-all', /needs nowhere-at-all, which is not on the worker's PATH/],
  ['#!/nowhere/node', /needs \/nowhere\/node/],
])('a script for %s is missing its interpreter', async (line, reason) => {
  file('bin/agent', `${line}\n`)
  expect(await locateProgram(WANTED, where('bin'))).toMatchObject({
    is: 'missing',
    reason: expect.stringMatching(reason),
  })
})

test('a version manager is refused', async () => {
  file('.volta/bin/volta-shim')
  link('.volta/bin/agent', 'volta-shim')
  expect(await locateProgram(WANTED, where('.volta/bin'))).toMatchObject({
    is: 'missing',
    reason: expect.stringMatching(/Volta.*; use: npm install agent$/),
  })
})

test('a home folder is never mounted, wherever a package lies in it', async () => {
  file('.pnpm/agent@1/node_modules/agent/cli', 'ELF')
  link('bin/agent', '../.pnpm/agent@1/node_modules/agent/cli')
  expect(await locateProgram(WANTED, where('bin'))).toMatchObject({
    is: 'missing',
    reason: expect.stringMatching(/is more than one program/),
  })
})

test('a folder closed to other users is refused by name where sandboxes run as other users', async () => {
  file('closed/bin/agent')
  chmodSync(join(home, 'closed'), 0o700)
  expect(await locateProgram(WANTED, where('closed/bin'))).toMatchObject({ is: 'found' })
  expect(await locateProgram(WANTED, { ...where('closed/bin'), hasOwnUsers: true })).toMatchObject({
    is: 'missing',
    reason: expect.stringMatching(`: ${join(home, 'closed')} is not open .*; use: npm install agent$`),
  })
})
