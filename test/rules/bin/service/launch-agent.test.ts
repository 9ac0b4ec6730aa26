/** The property list of the host for launchd. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import {
  createLaunchd,
  dataDirOfLaunchAgent,
  formatLaunchAgent,
} from '../../../../bin/cli/service/launchd.ts'
import { testIf } from '../../../support/skips.ts'
import { tempFolder } from '../../../support/temp-folder.ts'

const strange = fc
  .array(fc.constantFrom(...'a b<>&"\'--]]>é漢🙂$%\\', '&amp;', '<!--'), { maxLength: 12 })
  .map((chars) => `/${chars.join('')}`)

const programOf = (path: string) => ({
  node: '/usr/bin/node',
  script: path,
  dataDir: path,
  home: path,
  environment: { PATH: path },
})

const plistOf = (path: string): string =>
  formatLaunchAgent(programOf(path), {
    words: ['serve', '--data-dir', path],
    stopSeconds: 60,
    logFile: '/Users/ann/Library/Logs/switchyard.log',
  })

test('the data directory is read back as it was', () => {
  fc.assert(fc.property(strange, (path) => expect(dataDirOfLaunchAgent(plistOf(path))).toBe(path)))
})

const READ = 'import json,plistlib,sys; print(json.dumps(plistlib.load(open(sys.argv[1],"rb"))))'
const hasReader = spawnSync('python3', ['-c', 'import plistlib']).status === 0

testIf(hasReader, 'needs python3')('a reader of property lists finds every value as it was meant', () => {
  const path = '/a b<>&"\'--]]>é漢🙂$%\\&amp;<!--'
  const file = join(tempFolder(), 'agent.plist')
  writeFileSync(file, plistOf(path))
  const { stdout, stderr } = spawnSync('python3', ['-c', READ, file], { encoding: 'utf8' })
  expect(stderr).toBe('')
  expect(JSON.parse(stdout)).toEqual({
    Label: 'dev.switchyard.host',
    ProgramArguments: ['/usr/bin/node', path, 'serve', '--data-dir', path],
    EnvironmentVariables: { PATH: path },
    WorkingDirectory: path,
    RunAtLoad: true,
    KeepAlive: { SuccessfulExit: false },
    ThrottleInterval: 60,
    ExitTimeOut: 60,
    Umask: 0o077,
    HardResourceLimits: { Core: 0 },
    StandardOutPath: '/dev/null',
    StandardErrorPath: '/Users/ann/Library/Logs/switchyard.log',
  })
})

test('the command for the log names its file as one word of a shell', () => {
  const { host } = createLaunchd(programOf('/Users/ann lee'), { uid: 501, home: '/Users/ann lee' })
  expect(host.logCommand).toBe("tail -n 20 '/Users/ann lee/Library/Logs/switchyard.log'")
})
