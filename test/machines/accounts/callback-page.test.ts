/** The page at the end of the consent. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createCallbackPage, renderPage } from '../../../actors/accounts/callback-page.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { firstSeed } from '../../support/random.ts'

test('says that the window can be closed, whatever happened', () => {
  const ends: Result<string>[] = [yes('Ada'), no('invalid', 'no'), no('unavailable', 'later')]
  for (const arrived of ends)
    expect(renderPage(createCallbackPage(arrived))).toContain('You can close this window.')
})

test('is good news with 200 only', () => {
  expect(createCallbackPage(yes('Ada')).status).toBe(200)
  expect(createCallbackPage(no('failed', 'it broke')).status).toBe(400)
  expect(createCallbackPage(no('unavailable', 'stopping')).status).toBe(503)
})

test('whatever somebody says, no markup of theirs gets into it', () => {
  const seed = firstSeed(1)
  const pageOf = (said: string) => renderPage(createCallbackPage(yes(said)))
  const empty = pageOf('')
  const tags = (html: string) => html.match(/<[^>]*>/g) ?? []
  const text = fc.string({
    unit: fc.constantFrom('<', '>', '&', '"', "'", 'script', 'a', '/', '=', '\u0000'),
  })
  fc.assert(
    fc.property(text, (said) => {
      expect(tags(pageOf(said))).toEqual(tags(empty))
    }),
    { seed },
  )
  expect(empty).not.toMatch(/<script|<style|<link|<img|style=|\son\w+=|href=|src=/)
})
