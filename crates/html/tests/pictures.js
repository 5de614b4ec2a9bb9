// Takes pictures of a page: node pictures.js PAGE FOLDER. Wide and as on a phone, in light and dark.
"use strict";
const { open } = require("./browser.js");
const [file, folder] = process.argv.slice(2);

(async () => {
  const page = await open();
  const step = async () => page.evaluate("JSON.parse(document.getElementById('data').textContent).time.step");
  const take = async (name, screen, place, from = "") => {
    await page.screen(screen);
    await page.go(`file://${file}#${place}`);
    await page.evaluate(`new Promise((done) => { ${from ? `document.querySelector("${from}").scrollIntoView();` : ""} setTimeout(done, 300); })`);
    await page.picture(`${folder}/${name}.png`);
  };
  try {
    await page.screen();
    await page.go(`file://${file}`);
    const second = 1e9 / await step();
    const two = `span=${9 * second}-${12 * second}&second=${5 * second}-${8 * second}`;
    await take("report-wide-light", { height: 1000 }, "view=flame");
    await take("report-wide-dark", { height: 1000, isDark: true }, `view=flame&${two}`);
    await take("report-phone-light", { width: 390, height: 844, isPhone: true }, "view=flame");
    await take("report-phone-dark", { width: 390, height: 844, isDark: true, isPhone: true }, `view=source&${two}`, "#chosen");
  } finally {
    await page.close();
  }
})();
