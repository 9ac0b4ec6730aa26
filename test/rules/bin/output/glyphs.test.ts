/** The glyphs of terminals and locales. */
import { expect, test } from '@jest/globals'
import { createColors } from '../../../../bin/output/colors.ts'
import { createGlyphs, type GlyphName, glyphColor } from '../../../../bin/output/styled-stream.ts'

test.each<[NodeJS.ProcessEnv, NodeJS.Platform, string, string]>([
  [{ LANG: 'en_US.UTF-8' }, 'linux', '▸', '…'],
  [{ LANG: 'de_DE.utf8' }, 'linux', '▸', '…'],
  [{ LANG: 'C.UTF-8' }, 'linux', '▸', '…'],
  [{ LANG: 'en_US.UTF-8', LC_ALL: 'C' }, 'linux', '>', '...'],
  [{ LANG: 'en_US.UTF-8', LC_CTYPE: 'en_US.ISO-8859-1' }, 'linux', '>', '...'],
  [{ LANG: 'en_US.UTF-8', LC_ALL: '' }, 'linux', '▸', '…'],
  [{}, 'linux', '>', '...'],
  [{}, 'darwin', '▸', '…'],
  [{ LANG: 'POSIX' }, 'darwin', '>', '...'],
  [{ LANG: 'en_US.UTF-8', TERM: 'linux' }, 'linux', '>', '...'],
  [{ LANG: 'en_US.UTF-8', TERM: 'dumb' }, 'darwin', '>', '...'],
  [{ LANG: 'ja_JP.UTF-8' }, 'linux', '▸', '...'],
  [{ LC_CTYPE: 'zh_CN.UTF-8', LANG: 'en_US.UTF-8' }, 'linux', '▸', '...'],
  [{ LANG: 'ko_KR.UTF-8' }, 'darwin', '▸', '...'],
])('%j on %s draws running as %s and truncates with %s', (env, platform, running, ellipsis) => {
  const glyphs = createGlyphs(env, platform)
  expect([glyphs.of('running'), glyphs.ellipsis]).toEqual([running, ellipsis])
})

test.each<[NodeJS.ProcessEnv, boolean]>([
  [{ LC_ALL: 'C' }, true],
  [{ LANG: 'POSIX' }, true],
  [{ LANG: 'C.UTF-8' }, false],
  [{ LANG: 'en_US.ISO-8859-1' }, false],
  [{}, false],
])('the text of tickets is ASCII only with %j: %s', (env, isAsciiOnly) => {
  expect(createGlyphs(env, 'linux').isAsciiOnly).toBe(isAsciiOnly)
})

test.each<[GlyphName, string, string, string]>([
  ['queued', '◦', '.', '\x1b[2mx\x1b[22m'],
  ['preparing', '▹', '-', '\x1b[1mx\x1b[22m'],
  ['running', '▸', '>', '\x1b[1mx\x1b[22m'],
  ['finalizing', '»', '=', '\x1b[1mx\x1b[22m'],
  ['completed', '✓', '+', '\x1b[32mx\x1b[39m'],
  ['failed', '✗', 'x', '\x1b[31mx\x1b[39m'],
  ['cancelled', '⊘', '/', '\x1b[2mx\x1b[22m'],
  ['attention', '!', '!', '\x1b[35mx\x1b[39m'],
])('%s is %s, in ASCII %s', (name, unicode, ascii, painted) => {
  expect(createGlyphs({ LANG: 'C.UTF-8' }, 'linux').of(name)).toBe(unicode)
  expect(createGlyphs({ LANG: 'C' }, 'linux').of(name)).toBe(ascii)
  expect(glyphColor(name, createColors({ isTTY: true }, {}))('x')).toBe(painted)
})
