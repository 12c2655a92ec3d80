import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// A development server answers the pages, and passes API calls to a Timeball that runs beside it.
const server = process.env.TIMEBALL_URL ?? 'http://127.0.0.1:1300'
const token = process.env.TIMEBALL_TOKEN

/** The server writes its base path and a nonce into index.html. The development server has neither. */
const placeholders: Plugin = {
  name: 'timeball-placeholders',
  apply: 'serve',
  transformIndexHtml: html => html.replaceAll('__TIMEBALL_BASE__', '/').replaceAll('__TIMEBALL_NONCE__', ''),
}

/** Pages are all called page.tsx: their chunks get the names of their folders. */
function nameOf(chunk: { name: string; facadeModuleId?: string | null }): string {
  return /\/pages\/([\w-]+)\/page\.tsx$/.exec(chunk.facadeModuleId ?? '')?.[1] ?? chunk.name
}

export default defineConfig({
  // Relative addresses: the UI works below any path prefix. The server writes <base href> into index.html.
  base: './',
  plugins: [react(), tailwindcss(), placeholders],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: process.env.TIMEBALL_WEB_OUT ?? '../src/timeball/web/static',
    emptyOutDir: true,
    manifest: 'manifest.json',
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: { output: { chunkFileNames: chunk => `assets/${nameOf(chunk)}-[hash].js` } },
  },
  worker: { format: 'es' },
  server: {
    proxy: {
      '^/(v1|openapi.json|docs|livez|readyz)': {
        target: server,
        changeOrigin: true,
        headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts'] },
})
