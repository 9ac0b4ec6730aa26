/** The words for mistakes in a scripted ticket: the step, and how to write it. */
import { expect, test } from '@jest/globals'
import { parsePrompt, parseScript, VERBS } from '../../../examples/scripted-agent/program/script.ts'

test.each<[string, string[], string]>([
  ['an unknown step', ['dance'], `"dance" is no step; use one of ${VERBS.join(', ')}`],
  [
    'a name that every object has',
    ['constructor x'],
    `"constructor" is no step; use one of ${VERBS.join(', ')}`,
  ],
  [
    'a body below a step without one',
    ['delete x', '  y'],
    'takes no body; the next line must not be indented',
  ],
  ['a body below nothing', ['  y'], 'is indented, but the line above takes no body'],
  ['say without a text', ['say'], 'say needs a text'],
  ['run without a command', ['run'], 'run needs a command'],
  ['write without a path', ['write', '  x'], 'write needs a path'],
  ['artifact without a name', ['artifact', '  x'], 'artifact needs a name'],
  ['delete without a path', ['delete'], 'delete needs a path'],
  ['edit without a path', ['edit', '  - x'], 'edit needs a path'],
  [
    'edit without old lines',
    ['edit x', '  + y'],
    'edit needs lines that begin with "- ": what is to be replaced',
  ],
  [
    'edit without marks',
    ['edit x', '  y'],
    'the lines below edit begin with "- ", "+ " or two spaces, after their indentation; not "y"',
  ],
  ['a text without its end', ['write x <<END', 'y'], 'its text has no end; close it with a line END'],
  ['wait for ever', ['wait 1e9'], 'wait needs a number of seconds, at most 86400'],
  ['half a line of spam', ['spam 0.5'], 'spam needs a number of lines, at most 1000000'],
  ['limit without a number', ['limit never'], 'limit takes a number of minutes, at most 10080'],
  ['a port out of range', ['ask-network a:99999'], 'the port must be between 1 and 65535'],
  ['two hosts', ['ask-network a b'], 'ask-network needs a host, or host:port'],
  ['an exit code out of range', ['crash 256'], 'crash takes an exit code from 0 to 255'],
  ['hang with another word', ['hang on'], 'hang takes nothing but deaf'],
])('%s', (_, lines, words) => {
  expect(parseScript(lines)).toEqual({ is: 'bad', line: 1, error: words })
})

test('a block without an end', () => {
  expect(parsePrompt('```switchyard\nsay hi')).toMatchObject({
    is: 'bad',
    error: 'the block has no end; close it with ```',
  })
})
