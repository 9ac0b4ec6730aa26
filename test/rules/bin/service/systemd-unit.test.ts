/** The systemd unit of the host: quoting, and what systemd itself reads in it. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { STOP_MS_MAX } from '../../../../actors/root/root.module.ts'
import type { ServiceProgram } from '../../../../bin/cli/service/machine.ts'
import { dataDirOfUnit, formatUnit } from '../../../../bin/cli/service/systemd.ts'
import { RESCUE_MS_MIN } from '../../../../bin/process/store-exit-code.ts'
import { CLOSE_STORE_MS_MAX } from '../../../../bin/programs/serve/serve.ts'
import { quoteUnitWord, SERVICE_STOP_SECONDS_MAX } from '../../../../core/service/systemd-unit.ts'
import { readUnitWords } from '../../../support/read-unit.ts'
import { testIf } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

/** Characters that a shell, a unit or a person stumbles over. */
const STRANGE = 'a b%$"\'\\;#{}&*é漢🙂\u00a0%h$HOME $' + '{X} %%$$ \\n'
const paths = fc
  .array(fc.constantFrom(...STRANGE, '%', '$', '\\', '"', ' '), { maxLength: 12 })
  .map((chars) => `/${chars.join('')}`)

const program = (more: Partial<ServiceProgram> = {}): ServiceProgram => ({
  node: '/usr/bin/node',
  script: '/opt/switchyard/dist/bin/switchyard.js',
  dataDir: '/home/ann/.local/share/switchyard',
  home: '/home/ann',
  environment: { PATH: '/usr/bin:/bin' },
  ...more,
})

const unitFor = (of: ServiceProgram): string =>
  formatUnit(of, {
    role: 'host',
    name: 'switchyard',
    words: ['serve', '--data-dir', of.dataDir],
    stopSeconds: SERVICE_STOP_SECONDS_MAX,
  })

const valuesOf = (unit: string, key: string): string[] =>
  unit.split('\n').flatMap((line) => (line.startsWith(`${key}=`) ? [line.slice(key.length + 1)] : []))

test('every path is read back as it was, by the rules of systemd', () => {
  fc.assert(
    fc.property(paths, paths, paths, (script, dataDir, folder) => {
      const unit = unitFor(program({ script, dataDir, environment: { PATH: folder } }))
      const [command = ''] = valuesOf(unit, 'ExecStart')
      expect(readUnitWords(command, true)).toEqual(['/usr/bin/node', script, 'serve', '--data-dir', dataDir])
      const [variable = ''] = valuesOf(unit, 'Environment')
      expect(readUnitWords(variable, false)).toEqual([`PATH=${folder}`])
      expect(dataDirOfUnit(unit)).toBe(dataDir)
    }),
  )
})

test('control characters become escapes, so that no value ends its line', () => {
  const quoted = quoteUnitWord('a\nb\tc\u007f')
  expect(quoted).not.toMatch(/\p{Cc}/u)
  expect(readUnitWords(quoted, false)).toEqual(['a\nb\tc\u007f'])
})

test('a path of node that systemd refuses is refused with 2', () => {
  for (const node of ['/a"b/node', "/a'b/node", '/a\\b/node'])
    expect(() => unitFor(program({ node }))).toThrow(expect.objectContaining({ code: 2 }))
  expect(unitFor(program({ node: '/a $b%c/node' }))).toContain('ExecStart="/a $b%%c/node" ')
})

test('a restart follows a failure, but none that a restart can not cure', () => {
  const unit = unitFor(program())
  expect(valuesOf(unit, 'Restart')).toEqual(['on-failure'])
  expect(valuesOf(unit, 'RestartPreventExitStatus')).toEqual(['2 65 69 75 76 77 78'])
})

test('a stopping host has the time that it may take', () => {
  expect(SERVICE_STOP_SECONDS_MAX * 1_000).toBeGreaterThan(STOP_MS_MAX + CLOSE_STORE_MS_MAX + RESCUE_MS_MIN)
})

const hasAnalyze = spawnSync('systemd-analyze', ['--version']).status === 0
const testWithSystemd = testIf(hasAnalyze, 'needs systemd-analyze')

/** What systemd says about a unit: its complaints, and the unit as it understood it. */
function analyze(unit: string): { readonly complaints: string; readonly read: string } {
  const folder = tempFolder()
  const file = join(folder, 'switchyard.service')
  writeFileSync(file, unit)
  const ask = (level: string) =>
    spawnSync('systemd-analyze', ['--user', 'verify', file], {
      encoding: 'utf8',
      env: { ...process.env, XDG_RUNTIME_DIR: folder, SYSTEMD_LOG_LEVEL: level },
    })
  return { complaints: ask('info').stderr, read: ask('debug').stdout }
}

testWithSystemd('systemd finds nothing to complain about, and reads every word as it was meant', () => {
  const folder = join(tempFolder(), 'no de$HOME%h')
  mkdirSync(folder)
  const node = join(folder, 'node')
  writeFileSync(node, '#!/bin/sh\n')
  chmodSync(node, 0o755)
  const script = `/opt/${STRANGE}`
  const environment = { PATH: `/usr/bin:/${STRANGE}`, CODEX_HOME: '/a b' }
  const { complaints, read } = analyze(unitFor(program({ node, script, environment })))
  expect(complaints).toBe('')
  for (const [name, value] of Object.entries(environment))
    expect(read).toContain(`Environment: ${name}=${value}\n`)
  const command = /Command Line: (.*)/.exec(read)?.[1] ?? ''
  // systemd prints the words quoted for a shell; a dollar is still doubled, because variables are expanded at the start.
  const words = execFileSync('bash', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' }).split('\0')
  expect(words.slice(0, -1)).toEqual([
    node,
    script.replaceAll('$', '$$$$'),
    'serve',
    '--data-dir',
    program().dataDir,
  ])
})
