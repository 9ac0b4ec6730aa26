/** The commands in words for people can be copied: they name the program as it was started, and its data directory. */
import { expect, test } from '@jest/globals'
import { completeCommands, dataDirIn } from '../../../../bin/output/complete-commands.ts'

test.each([
  ['switchyard serve', 'switchyard serve@'],
  ['switchyard config set agent.agentAApiKey < FILE', 'switchyard config set agent.agentAApiKey@ < FILE'],
  ["switchyard start 'a, or b. c' --repo api", "switchyard start 'a, or b. c' --repo api@"],
  ["switchyard config set repos.a.setup 'it'\\''s'", "switchyard config set repos.a.setup 'it'\\''s'@"],
  [
    'switchyard tickets, or for a new one: switchyard start "A B"',
    'switchyard tickets@, or for a new one: switchyard start "A B"@',
  ],
  [
    'No runs. Next: switchyard tickets, or switchyard start "WORDS"',
    'No runs. Next: switchyard tickets@, or switchyard start "WORDS"@',
  ],
  [
    '1 warn. What can be mended safely: switchyard doctor --fix',
    '1 warn. What can be mended safely: switchyard doctor --fix@',
  ],
  [
    'wait while it starts; else kill 7, then switchyard serve',
    'wait while it starts; else kill 7, then switchyard serve@',
  ],
  ['switchyard resume, and queued runs start', 'switchyard resume@, and queued runs start'],
  [
    'Give each a label: switchyard config set repos.a.label NAME.',
    'Give each a label: switchyard config set repos.a.label NAME@.',
  ],
  ['VISUAL=vi switchyard config edit', 'VISUAL=vi switchyard config edit@'],
])('%s', (text, named) => {
  expect(completeCommands(text, { dataDir: '/srv/z' })).toBe(named.replaceAll('@', ' --data-dir /srv/z'))
  expect(completeCommands(text, {})).toBe(text)
})

test.each([
  'switchyard serve --data-dir /srv/other --port 0',
  'start one with: switchyard worker --host URL --token-file PATH',
  'switchyard --help',
  'switchyard runs list --help',
  'the program switchyard is serving',
  'journalctl --user -u switchyard',
  'unset SWITCHYARD_URL',
])('%s stays as it is', (text) => {
  expect(completeCommands(text, { dataDir: '/srv/z' })).toBe(text)
})

test.each([
  ['switchyard runs, or switchyard start "A B"', '@ runs, or @ start "A B"'],
  ['start one with: switchyard worker --host URL', 'start one with: @ worker --host URL'],
  ['switchyard --help', '@ --help'],
  ['switchyard runs list --help', '@ runs list --help'],
  ['the program switchyard is serving', 'the program switchyard is serving'],
])('%s begins with the words by which the program was started', (text, named) => {
  const program = 'node dist/bin/switchyard.js'
  expect(completeCommands(text, { program })).toBe(named.replaceAll('@', program))
})

test('the folder stands there as it was given, quoted where a shell needs that', () => {
  expect(completeCommands('switchyard serve', { dataDir: '/my data' })).toBe(
    "switchyard serve --data-dir '/my data'",
  )
  expect(completeCommands('switchyard serve', { dataDir: './z' })).toBe('switchyard serve --data-dir ./z')
})

test.each([
  [['serve', '--data-dir', '/srv/z'], '/srv/z'],
  [['dashboard', '--data-dir=/srv/z'], '/srv/z'],
  [['serve'], undefined],
  [['worker', '--data-dir', '/srv/w'], undefined],
])('%j names %s', (words, dataDir) => {
  expect(dataDirIn(words)).toBe(dataDir)
})
