/** The check of the machine before `npm start` and `npm test` build anything. */
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { isSupportedNode, judgeGit } from '../../../build/check-system.mjs'
import { GIT_NEEDED } from '../../../core/git-version.ts'
import { tempFolder } from '../../support/temp-folder.ts'

const SCRIPTS = ['build/start.mjs', 'build/test.mjs']

test.each(SCRIPTS)('%s stops at another Node with the command that installs the right one', (script) => {
  const pretend = "Object.defineProperty(process.versions, 'node', { value: '23.1.0' })"
  const args = ['--import', `data:text/javascript,${encodeURIComponent(pretend)}`, script]
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
  expect([status, stderr]).toEqual([69, expect.stringMatching(/^switchyard runs on Node 20\.11 .*install/)])
})

test.each(SCRIPTS)('%s stops at an old git with the version it needs', (script) => {
  const folder = tempFolder()
  writeFileSync(join(folder, 'git'), '#!/bin/sh\necho git version 2.25.1\n')
  chmodSync(join(folder, 'git'), 0o755)
  const env = { ...process.env, PATH: `${folder}:${process.env.PATH}` }
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', env })
  expect([status, stderr]).toEqual([69, expect.stringMatching(/needs git 2\.29 .*2\.25\.1/)])
})

test('npm start in a fresh clone says that packages are to be installed first, and how', () => {
  const script = 'build/start.mjs'
  const folder = tempFolder()
  mkdirSync(join(folder, 'build'))
  for (const file of [script, 'build/check-system.mjs']) copyFileSync(file, join(folder, file))
  const { status, stderr } = spawnSync(process.execPath, [script], { encoding: 'utf8', cwd: folder })
  expect([status, stderr]).toEqual([69, expect.stringMatching(/^.*packages .*: npm ci --ignore-scripts\n$/)])
})

test.each(['--help', '-h'])('npm start -- %s prints the help alone', (flag) => {
  const { status, stdout } = spawnSync(process.execPath, ['build/start.mjs', flag], { encoding: 'utf8' })
  expect([status, stdout.split('\n')[0]]).toEqual([0, expect.stringContaining('quickstart')])
})

test('Node 20.11 and later versions of 20, and 22 and 24 are supported, as package.json says', () => {
  for (const version of ['20.11.0', '20.19.4', '22.0.0', '22.23.3', '24.21.0'])
    expect([version, isSupportedNode(version)]).toEqual([version, true])
  for (const version of ['20.10.9', '18.20.0', '21.7.3', '23.1.0', '25.0.0', '26.10.0'])
    expect([version, isSupportedNode(version)]).toEqual([version, false])
  expect(JSON.parse(readFileSync('package.json', 'utf8')).engines.node).toBe('^20.11.0 || ^22.0.0 || ^24.0.0')
})

test('git is judged by the versions that the product needs', () => {
  expect(judgeGit('git version 2.25.1').problem).toContain(`${GIT_NEEDED.runs} or newer, and this is 2.25.1`)
  expect(judgeGit(`git version ${GIT_NEEDED.runs}.0`)).toEqual({
    warning: expect.stringContaining(GIT_NEEDED.merges),
  })
  expect(judgeGit(`git version ${GIT_NEEDED.merges}.0`)).toEqual({})
  expect(judgeGit('')).toEqual({})
})
