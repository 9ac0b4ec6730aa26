/** The page that the browser shows after the consent. */
import { expect, test } from '@jest/globals'
import fc from 'fast-check'
import { createCallbackPage, renderPage } from '../../../actors/accounts/callback-page.ts'
import { no, type Result, yes } from '../../../core/result.ts'
import { seedFromEnvironment } from '../../support/random.ts'

test('states that the window can be closed, on success and failure', () => {
  const ends: Result<string>[] = [yes('Ada'), no('invalid', 'no'), no('unavailable', 'later')]
  for (const arrived of ends) expect(renderPage(createCallbackPage(arrived))).toMatch(/close this window/)
})

test('has status 200 only when the account is connected', () => {
  expect(createCallbackPage(yes('Ada')).status).toBe(200)
  expect(createCallbackPage(no('failed', 'it broke')).status).toBe(400)
  expect(createCallbackPage(no('unavailable', 'stopping')).status).toBe(503)
})

test('escapes markup in every text', () => {
  const seed = seedFromEnvironment(1)
  const pageOf = (shownText: string) => renderPage(createCallbackPage(yes(shownText)))
  const empty = pageOf('')
  const tags = (html: string) => html.match(/<[^>]*>/g) ?? []
  const text = fc.string({
    unit: fc.constantFrom('<', '>', '&', '"', "'", 'script', 'a', '/', '=', '\u0000'),
  })
  fc.assert(
    fc.property(text, (shownText) => {
      expect(tags(pageOf(shownText))).toEqual(tags(empty))
    }),
    { seed },
  )
  expect(empty).not.toMatch(/<script|<style|<link|<img|style=|\son\w+=|href=|src=/)
})
